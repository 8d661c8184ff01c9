"""Who starts the processes of a program: torchrun and its like, another launcher, or the program itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument
from launcher.scripts.values import Constant, Several

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_SPAWNING = (
    "torch.multiprocessing.spawn",
    "torch.multiprocessing.start_processes",
    "multiprocessing.Process",
    "torch_xla.multiprocessing.spawn",
    "torch_xla.launch",
    "accelerate.notebook_launcher",
    "accelerate.debug_launcher",
    "torch.distributed.launcher.api.elastic_launch",
    "torch.distributed.launcher.elastic_launch",
    "subprocess.Popen",
    "ray.train.torch.TorchTrainer",
)

_TOOLS = frozenset({"java", "git", "ffmpeg", "ffprobe", "nvidia-smi", "perl", "tar", "wget", "curl", "aws"})
"""Programs that are no rank and start none."""

_OTHER_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_", "LSB_", "AZ_BATCH", "FLUX_")
"""How the variables of launchers begin that set no MASTER_ADDR and MASTER_PORT."""

_OTHER_LIBRARIES = frozenset({"mpi4py", "ray", "submitit", "hostlist", "pyspark", "dask", "simple_slurm"})


def spawns(program: Program) -> list[ast.Call]:
    """The calls by which a program starts processes itself, on the host where it runs."""
    found = [
        call
        for call, name in program.calls(*_SPAWNING)
        if name != "subprocess.Popen" or not _runs_another_program(program, call)
    ]
    contexts = (
        call
        for file in program.files
        for name in ("Process", "spawn")
        for call in file.calls_of.get(name, ())
        if any(each.arg in ("target", "nprocs") for each in call.keywords)
    )
    return [*found, *(call for call in contexts if call not in found)]


def _runs_another_program(program: Program, call: ast.Call) -> bool:
    """Whether a command surely is none that could be a rank or start one: `["java", "-jar", ...]`."""
    given = argument(call, "args", 0)
    value = None if given is None else program.value(given)
    if isinstance(value, Several) and value.node.elts:
        value = program.value(value.node.elts[0])
    if not isinstance(value, Constant) or not isinstance(value.value, str) or not value.value.strip():
        return False
    name = value.value.split()[0].rpartition("/")[2]
    return name in _TOOLS


def is_for_one_host(program: Program) -> bool:
    """Whether a program can only run on one host: it, or torch's harness for tests, starts its processes."""
    harness = any(
        (each.module or "").startswith("torch.testing._internal")
        for file in program.files
        for each in file.imports
    )
    return harness or bool(spawns(program))


def has_another_launcher(program: Program) -> bool:
    """Whether something else than torchrun may start it, after which it must set the addresses itself."""
    for file in program.files:
        if any(
            (each.module or "").lstrip(".").partition(".")[0] in _OTHER_LIBRARIES for each in file.imports
        ):
            return True
        if any(prefix in file.text for prefix in _OTHER_LAUNCHERS):
            return True
    return False
