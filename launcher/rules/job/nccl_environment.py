"""Obsolete variables, and debugging variables in a normal run."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.torch_version import torch_version
from launcher.rules.job.subject import SWITCHED_OFF, GivenVariable, JobSubject

# Since torch 2.2 (PyTorch documentation: torch_nccl_environment_variables).
_RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
}


@finds(Stage.SPEC, nccl.OBSOLETE_ENVIRONMENT)
def no_obsolete_environment(subject: JobSubject) -> Iterator[Finding]:
    """Variables that no longer do anything, or do something else than their author believed."""
    for variable in subject.variables():
        harm = _obsolete(variable, torch_version(subject.job))
        if harm:
            yield nccl.OBSOLETE_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value}: {harm}",
            )


@finds(Stage.SPEC, nccl.DEBUGGING_ENVIRONMENT)
def no_debugging_in_a_normal_run(subject: JobSubject) -> Iterator[Finding]:
    """What makes a run slow for as long as it stays; `profile: debug` asks for it openly."""
    if subject.job.profile == "debug":
        return
    for variable in subject.variables():
        harm = _debugging(variable)
        if harm:
            only_verbose = (variable.name, variable.value.strip().upper()) == ("NCCL_DEBUG", "INFO")
            yield nccl.DEBUGGING_ENVIRONMENT.at(
                variable.path,
                f"{variable.name}={variable.value} in a normal run {harm}",
                severity=Severity.INFO if only_verbose else None,
            )


def _obsolete(variable: GivenVariable, torch: tuple[int, int] | None) -> str | None:
    if variable.name == "NCCL_TREE_THRESHOLD":
        return "gone since NCCL 2.5; it changes nothing"
    if variable.name in ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"):
        new = variable.name.replace("NRINGS", "NCHANNELS")
        return f"an old name of {new}; more channels starve EFA instead of making it faster"
    if variable.name in _RENAMED and torch is not None and torch >= (2, 2):
        return f"torch {torch[0]}.{torch[1]} reads {_RENAMED[variable.name]} instead"
    if variable.name == "TORCH_NCCL_ASYNC_ERROR_HANDLING" and variable.value.strip() not in ("", "3"):
        return "the flight recorder relies on the default of 3; a hang would leave no record of its cause"
    return None


def _debugging(variable: GivenVariable) -> str | None:
    value = variable.value.strip().upper()
    if variable.name == "CUDA_LAUNCH_BLOCKING" and value not in SWITCHED_OFF:
        return "makes every kernel wait for the one before it, and stabilises nothing"
    if variable.name == "TORCH_DISTRIBUTED_DEBUG" and value == "DETAIL":
        return "compares every collective over all ranks before it runs"
    if variable.name == "TORCH_NCCL_BLOCKING_WAIT" and value not in SWITCHED_OFF:
        return "blocks the host at each collective and switches off the watchdog that records hangs"
    if variable.name == "NCCL_DEBUG" and value == "TRACE":
        return "floods the log with every call of every rank"
    if variable.name == "NCCL_DEBUG" and value == "INFO":
        return "writes hundreds of lines for each rank at the start, in which warnings are lost"
    return None
