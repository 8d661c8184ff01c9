"""What this machine lacks is not called the fault of the script."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.record import Record
from launcher.session.here import Place, as_met_here

CPUS = Place(gpus=False, instance_type="ml.g5.12xlarge")
GPUS = Place(gpus=True, instance_type="ml.g5.12xlarge")


def failed_with(error: str) -> Diagnosis:
    """The diagnosis of a run whose rank 0 ended with that error."""
    return diagnose((), f"AlgorithmError: CODE001 rank 0 on algo-1: {error} (train.py:3), exit code: 1")


def remedy(error: str, place: Place) -> str:
    found = as_met_here(failed_with(error), place)
    assert found.root_cause is not None
    # What is listed and what is told first are the same.
    assert found.findings[0] == found.root_cause.finding
    assert found.root_cause.finding.code in ("CODE001", "DIST003")
    assert "launch JOB.yaml --local` before" not in found.root_cause.finding.remedy
    return found.root_cause.finding.remedy


@pytest.mark.parametrize(
    "error",
    [
        "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: No CUDA GPUs are available",
        "RuntimeError: Distributed package doesn't have NCCL built in",
        "RuntimeError: Attempting to deserialize on a CUDA device but torch.cuda.is_available() is False.",
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
        "RuntimeError: Tried to instantiate dummy base class Stream",
        "MisconfigurationException: No supported gpu backend found!",
        "ValueError: fp16 mixed precision requires a GPU (not 'cpu').",
        "ValueError: SyncBatchNorm layers only work with GPU modules",
        "ValueError: DistributedDataParallel device_ids and output_device arguments only work with "
        "single-device/multiple-device GPU modules or CPU modules, but got device_ids [device(type='cpu')], "
        "output_device None, and module parameters {device(type='cpu')}.",
        "RuntimeError: 0 active drivers ([]). There should only be one.",
        "FileNotFoundError: [Errno 2] No such file or directory: 'nvcc'",
    ],
)
def test_a_missing_gpu_is_the_machines(error: str) -> None:
    said = remedy(error, CPUS)
    assert said.startswith(
        "The hosts of this run see no GPU; on ml.g5.12xlarge the script would go on. To run it here"
    )
    assert "torch.cuda.is_available()" in said
    # A run of an older launcher does not say whether it had GPUs; what it printed does.
    assert remedy(error, Place(None, "ml.g5.12xlarge")) == said


def test_triton_which_only_a_torch_for_gpus_brings_is_not_asked_of_requirements_txt() -> None:
    cause = as_met_here(failed_with("ModuleNotFoundError: No module named 'triton'"), CPUS).root_cause
    assert cause is not None
    assert cause.finding.remedy.startswith("The hosts of this run see no GPU; on ml.g5.12xlarge the script")


def test_where_the_instance_type_has_no_gpu_either_the_script_would_fail_there_too() -> None:
    said = remedy("RuntimeError: No CUDA GPUs are available", Place(False, "ml.m5.xlarge"))
    assert "ml.m5.xlarge has none either: it would fail there, too" in said


def test_with_gpus_here_the_script_or_the_build_of_torch_is_at_fault() -> None:
    assert "Install one with CUDA" in remedy("AssertionError: Torch not compiled with CUDA enabled", GPUS)
    assert "see no GPU" not in remedy("RuntimeError: No CUDA GPUs are available", GPUS)
    too_many = failed_with("RuntimeError: CUDA error: invalid device ordinal")
    assert as_met_here(too_many, GPUS) == too_many


def test_a_python_without_torch_is_named_with_the_option_for_another() -> None:
    assert "--python PATH" in remedy("ModuleNotFoundError: No module named 'torch'", CPUS)
    assert "--python" not in remedy("ModuleNotFoundError: No module named 'torchtune'", CPUS)


def test_a_containers_folder_in_the_code_is_said_to_be_elsewhere_here() -> None:
    for error in (
        "PermissionError: [Errno 13] Permission denied: '/opt/ml'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/opt/ml/model/model.pt'",
    ):
        found = diagnose((), f"AlgorithmError: CODE001 algo-1: {error} (train.py:3), exit code: 1")
        [finding] = as_met_here(found, CPUS).findings
        assert "SM_MODEL_DIR" in finding.remedy, finding
    assert "SM_MODEL_DIR" not in remedy(
        "FileNotFoundError: [Errno 2] No such file or directory: '/data'", CPUS
    )


@pytest.mark.parametrize(
    "line",
    ["httpx.ConnectError: [Errno -2] Name or service not known", "urllib.error.HTTPError: HTTP Error 503: x"],
)
def test_a_hub_that_this_machine_cannot_reach_is_looked_for_from_here(line: str) -> None:
    found = diagnose([Record(1.0, "algo-1", f"[rank0]: {line}")])
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "HUB001"
    [finding] = as_met_here(found, CPUS).findings
    assert "See whether this machine reaches it" in finding.remedy
    assert "give the subnets" not in finding.remedy


def test_what_was_run_here_is_not_advised_to_be_run_here() -> None:
    assert remedy("ValueError: 3 is not in range", CPUS).startswith("Repair what the traceback")


def test_other_causes_keep_their_remedy() -> None:
    found = diagnose((), "AlgorithmError: MEM002 algo-1: killed by SIGKILL, exit code: 137")
    assert as_met_here(found, CPUS) == found
    nothing = diagnose(())
    assert as_met_here(nothing, CPUS) == nothing
