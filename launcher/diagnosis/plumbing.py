"""Whether an exception comes from where ranks and processes speak with one another.

They speak through process groups, stores, queues and actors. Where one of them ends, the others fail in just
that plumbing: an exception from there is a cause only where nothing else failed.
"""

from __future__ import annotations

import re

from launcher.diagnosis.tracebacks import Traceback

_PLUMBING_FILES = re.compile(
    r"/torch/distributed/(?!checkpoint/|fsdp/|tensor/|_tensor/|_shard/|_composable/|optim/|pipelining/)"
    r"|/torch/utils/data/(?:dataloader|_utils/(?:worker|pin_memory|signal_handling))\.py$"
    r"|/(?:site|dist)-packages/(?:ray|horovod|mpi4py|deepspeed/comm)/"
    r"|/(?:pytorch_lightning|lightning/pytorch)/trainer/connectors/signal_connector\.py$"
    r"|/multiprocessing/(?:connection|queues|synchronize|resource_sharer|reduction|managers|popen_\w{1,20})\.py$"
    r"|/concurrent/futures/process\.py$"
)
_RENDEZVOUS_FILES = "/torch/distributed/elastic/rendezvous/"
_PLUMBING_TYPES = ("ray.exceptions.", "torch.distributed.Dist")
_OF_THE_USERS = "ray.exceptions.RayTaskError"
"""Ray's word for an exception of the user's own code in another process."""

_PLUMBING_NAMES = (
    "BrokenProcessPool",
    "SIGTERM",
    "SignalException",
    "NCCL communicator",
    "NCCL error",
    "NCCL operations",
    "gloo/",
    "[gloo]",
    "ProcessGroup",
    "c10d",
    "TCPStore",
    "monitoredBarrier",
    "pair closure",
    "by peer",
    "DataLoader worker (",
    "Pin memory thread",
    "the launch timed out",
)
"""The parts that an exception names where its stack does not reach into them: those in C++."""

_OWN_MISTAKE = re.compile(
    r"(?:^|\.)(?:ValueError|TypeError|KeyError|AttributeError|IndexError|NameError|UnboundLocalError|ImportError"
    r"|ModuleNotFoundError|NotImplementedError|SyntaxError|AssertionError|ZeroDivisionError|FileNotFoundError"
    r"|PermissionError|OutOfMemoryError)$"
)
"""What a wrong call raises, wherever it is noticed: no other rank's end does."""


def ends_in_plumbing(traceback: Traceback) -> bool:
    """Whether an exception was raised where ranks and processes speak with one another."""
    if _OWN_MISTAKE.search(traceback.kind):
        return False
    kind, said = traceback.kind, traceback.exception
    if kind.startswith(_PLUMBING_TYPES) and not kind.startswith(_OF_THE_USERS):
        return True
    innermost = traceback.frames[-1].file if traceback.frames else ""
    return bool(_PLUMBING_FILES.search(innermost)) or any(name in said for name in _PLUMBING_NAMES)


def ends_in_rendezvous(traceback: Traceback) -> bool:
    """Whether an exception was raised where torchrun's agents meet, before there are ranks."""
    innermost = traceback.frames[-1].file if traceback.frames else ""
    return _RENDEZVOUS_FILES in innermost and not _OWN_MISTAKE.search(traceback.kind)


def begins_no_process(traceback: Traceback) -> bool:
    """Whether an exception was raised where multiprocessing reads what a new process is to run."""
    return bool(traceback.frames) and traceback.frames[-1].file.endswith("/multiprocessing/spawn.py")
