"""Who starts the processes of a program: torchrun and its like, another launcher, or the program itself."""

from __future__ import annotations

import ast

from launcher.scripts.program import Program
from launcher.scripts.scopes import last_name

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

_SPAWNING_TESTS = (
    "MultiProcessTestCase",
    "MultiProcContinuousTest",
    "MultiThreadedTestCase",
    "DistributedTestBase",
)
"""Classes of torch's own tests that start a process or thread for each rank, on the host where they run."""

_OTHER_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "PMIX_", "MV2_", "LSB_", "AZ_BATCH", "FLUX_")
"""How the variables of launchers begin that set no MASTER_ADDR and MASTER_PORT."""

_OTHER_LIBRARIES = frozenset({"mpi4py", "ray", "submitit", "hostlist", "pyspark", "dask", "simple_slurm"})


def spawns(program: Program) -> list[ast.Call]:
    """The calls by which a program starts processes itself, on the host where it runs."""
    found = [call for call, _ in program.calls(*_SPAWNING)]
    contexts = (
        call
        for file in program.files
        for name in ("Process", "spawn")
        for call in file.calls_of.get(name, ())
        if any(each.arg in ("target", "nprocs") for each in call.keywords)
    )
    return [*found, *(call for call in contexts if call not in found)]


def is_test_of_one_host(program: Program) -> bool:
    """Whether a program is a test whose class starts the ranks on one host."""
    return any(
        last_name(base) in _SPAWNING_TESTS
        for file in program.files
        for definition in file.classes
        for base in definition.bases
    )


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
