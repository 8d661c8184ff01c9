"""A diagnosis of a run on this machine: what the machine lacks is not called the script's fault."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from launcher.cluster.instances import instance_facts
from launcher.diagnosis.model import Diagnosis, RootCause
from launcher.diagnosis.signatures.hubs import NO_WAY
from launcher.failure_modes.job_runtime import HUB_UNREACHABLE, SCRIPT_RAISED

NO_GPU = (
    "Found no NVIDIA driver",
    "No CUDA GPUs are available",
    "cudaGetDeviceCount",
    "ProcessGroupNCCL is only supported with GPUs",
    "torch.cuda.is_available() is False",
    "Cannot access accelerator device when none is available",
    "0 active drivers ([])",
    "CUDA_HOME environment variable is not set",
    "'nvcc'",
    "libcuda.so",
    "no CUDA-capable device is detected",
    "CUDA_HOME does not exist, unable to compile",
    "No supported gpu backend found",
    "mixed precision requires a GPU",
    "No GPU found. A GPU is needed for quantization",
    "SyncBatchNorm layers only work with GPU modules",
    "and module parameters {device(type='cpu')}",
)
"""What is printed where a GPU, its driver or its compiler is missing: by torch (torch/cuda/__init__.py,
c10/cuda, torch/csrc/distributed/c10d/init.cpp, torch/serialization.py, torch/utils/cpp_extension.py,
torch/nn/parallel/distributed.py),
triton (triton/runtime/driver.py), the loader, CUDA, DeepSpeed (op_builder/builder.py), Lightning
(accelerator_connector.py), accelerate (accelerator.py) and transformers (quantizers)."""

CPU_BUILD = (
    "Torch not compiled with CUDA enabled",
    "Distributed package doesn't have NCCL built in",
    "module 'torch._C' has no attribute '_cuda_",
    "Tried to instantiate dummy base class",
    "No module named 'triton'",
)
"""What a torch says that was built for CPUs (torch/cuda/__init__.py, torch/_utils.py,
torch/distributed/distributed_c10d.py), and what is said where triton is missing, which only a torch for
CUDA requires."""

NO_TORCH = "No module named 'torch'"

CONTAINER_PATH = re.compile(r"\[Errno \d+\] [\w ]+: '/opt/ml\b")
"""What CPython says of a file that the script names by its path in a container."""

_BY_DEVICE = (
    'To run it here as well, let the script choose by what is there: `device = "cuda" if '
    'torch.cuda.is_available() else "cpu"`, and init_process_group(backend="nccl" if device == "cuda" else '
    '"gloo").'
)
_NO_WAY_HERE = (
    "See whether this machine reaches it now; a run gets none of the launcher's variables, so that a proxy "
    "has to stand in the job's `environment`. On AWS subnets without a NAT gateway reach it neither: what is "
    "downloaded once beforehand and given as an input channel (`inputs`, here `--input NAME=DIR`), with "
    "HF_HUB_OFFLINE=1 and HF_HOME below it, needs no network."
)
_REPAIR = (
    "Repair what the traceback of the first failing rank names, and run it here again. A main() decorated "
    "with torch.distributed.elastic.multiprocessing.errors.record keeps tracebacks of all ranks apart."
)


@dataclass(frozen=True, slots=True)
class Place:
    """A run on this machine: whether its hosts saw GPUs, None where unknown, and the type they stand for."""

    gpus: bool | None
    instance_type: str | None


def as_met_here(diagnosis: Diagnosis, place: Place) -> Diagnosis:
    """The diagnosis of a local run, with a remedy that fits where the run was."""
    cause = diagnosis.root_cause
    remedy = _remedy(cause, place) if cause else None
    if cause is None or remedy is None:
        return diagnosis
    finding = replace(cause.finding, remedy=remedy)
    others = tuple(finding if each == cause.finding else each for each in diagnosis.findings)
    return replace(diagnosis, root_cause=replace(cause, finding=finding), findings=others)


def _remedy(cause: RootCause, place: Place) -> str | None:
    """What to do about the root cause here; None where what was said of it fits."""
    said = "\n".join((cause.finding.message, cause.log_line, *cause.evidence))
    if NO_TORCH in said:
        return (
            "The Python of this run has no torch, which the job's image has. Run it with one that has, with "
            "`launch JOB.yaml --local --python PATH`, or install torch into it."
        )
    if CONTAINER_PATH.search(said):
        return (
            "The code names /opt/ml by itself, the folder of a container: this run has another in its place. "
            "Read the folders from SM_MODEL_DIR, SM_OUTPUT_DATA_DIR, SLIPWAY_CHECKPOINT_DIR and "
            "SM_CHANNEL_NAME, or hand them over as arguments, in which /opt/ml is mapped."
        )
    if cause.finding.remedy in (NO_WAY, HUB_UNREACHABLE.remedy):
        return _NO_WAY_HERE
    no_build = any(text in said for text in CPU_BUILD)
    if place.gpus is not True and (no_build or any(text in said for text in NO_GPU)):
        return f"{_no_gpu(place.instance_type)} {_BY_DEVICE}"
    if no_build:
        return (
            "The torch of this run is a build without CUDA, while the machine has GPUs. Install one with "
            "CUDA, or give a Python that has it with `launch JOB.yaml --local --python PATH`."
        )
    return _REPAIR if cause.finding.remedy == SCRIPT_RAISED.remedy else None


def _no_gpu(instance_type: str | None) -> str:
    facts = instance_facts(instance_type or "")
    if facts is None:
        return "The hosts of this run see no GPU; where there are some, the script would go on."
    if facts.has_gpus:
        return f"The hosts of this run see no GPU; on {instance_type} the script would go on."
    return f"The hosts of this run see no GPU, and {instance_type} has none either: it would fail there, too."
