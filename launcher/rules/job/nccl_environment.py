"""Obsolete variables, and debugging variables in a normal run."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import nccl
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.torch_version import torch_version
from launcher.rules.job.subject import SWITCHED_OFF, GivenVariable, JobSubject

# Since torch 2.2, which takes the old name for the new one (ProcessGroupNCCL.hpp; still so in torch 2.13).
_RENAMED = {
    "NCCL_ASYNC_ERROR_HANDLING": "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "NCCL_BLOCKING_WAIT": "TORCH_NCCL_BLOCKING_WAIT",
}

_TIMEOUT = "the time-out of collectives is `timeout` of torch.distributed.init_process_group"

UNREAD = {
    "NCCL_TIMEOUT": _TIMEOUT,
    "TORCH_NCCL_TIMEOUT": _TIMEOUT,
    "TORCH_DISTRIBUTED_TIMEOUT": _TIMEOUT,
    "PYTORCH_TIMEOUT": _TIMEOUT,
    "NCCL_SOCKET_TIMEOUT": _TIMEOUT,
    "NCCL_SOCKET_TIMEOUT_MS": _TIMEOUT,
    "TORCHELASTIC_MAX_CALLTIME": "torchrun waits for all hosts as long as its rendezvous does",
    "TORCH_DISTRIBUTED_DETAILED_LOGGING": "TORCH_DISTRIBUTED_DEBUG and TORCH_CPP_LOG_LEVEL are read",
    "NCCL_BUFFERSIZE": "the size of the buffers is NCCL_BUFFSIZE, which the plugin chooses",
    "NCCL_MIN_CHANNELS": "the variable is NCCL_MIN_NCHANNELS, and more channels starve EFA",
    "NCCL_MAX_CHANNELS": "the variable is NCCL_MAX_NCHANNELS",
    "NCCL_NET_MAX_REQUESTS": "it is a constant of NCCL, not a variable",
    "NCCL_NSOCKS": "the variable is NCCL_NSOCKS_PERTHREAD, and is for TCP sockets alone",
    "NSOCKS": "the variable is NCCL_NSOCKS_PERTHREAD, and is for TCP sockets alone",
    "FI_EFA_DEVICE_NAME": "libfabric chooses its devices by FI_EFA_IFACE",
}
"""What people set, AWS's own examples among them, and nothing reads; and what is read instead.

Looked for, on 2026-11-22, in NVIDIA/nccl (every tag from v2.3.5-5 to v2.30.7-1), torch 2.13.0 (the Python
files, libraries and headers of the wheel), aws-ofi-nccl 2daf7d30 and ofiwg/libfabric af8ddbe9.
"""

_GONE = {
    "NCCL_TREE_THRESHOLD": "2.5",
    "NCCL_LL_THRESHOLD": "2.5",
    "NCCL_RINGS": "2.5",
    "NCCL_IB_CUDA_SUPPORT": "2.4",
    "NCCL_IB_GDR_LEVEL": "2.4",
}
"""What NCCL read once, and the first version that does not (the same tags)."""


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
    if variable.name in UNREAD:
        return f"nothing reads it, so it changes nothing; {UNREAD[variable.name]}"
    if variable.name in _GONE:
        return f"gone since NCCL {_GONE[variable.name]}; it changes nothing"
    if variable.name in ("NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS"):
        new = variable.name.replace("NRINGS", "NCHANNELS")
        return f"an old name of {new}; more channels starve EFA instead of making it faster"
    if variable.name == "NCCL_AVOID_RECORD_STREAMS" and torch is not None and torch >= (2, 2):
        return f"torch {torch[0]}.{torch[1]} reads TORCH_NCCL_AVOID_RECORD_STREAMS instead"
    if variable.name in _RENAMED and torch is not None and torch >= (2, 2):
        return (
            f"torch {torch[0]}.{torch[1]} takes it for {_RENAMED[variable.name]}, and warns of the "
            "old name on every rank"
        )
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
