"""What followed from another rank's failure, told by what failed and in which order rather than by its text.

Ranks speak with one another through process groups, stores, queues and actors. Where one of them ends, the
others fail in just that plumbing: an exception from there is a cause only where nothing else failed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from launcher.diagnosis.reason import BEFORE_ALL_LINES
from launcher.diagnosis.sighting import Sighting
from launcher.diagnosis.signatures.signature import LineRole
from launcher.diagnosis.tracebacks import Traceback
from launcher.failure_modes import hardware, interruption, nccl, training_script

APART = 600.0
"""Seconds by which clocks of hosts may differ and a consequence still seem to come first."""

_SAME_MOMENT = 5.0
"""Seconds within which the times of two agents of torchrun tell no order: their clocks differ a little, and
each looks for failures every now and then."""

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


def with_consequences(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs of one incident, those that followed from another one's failure as such, and the end that
    all others only noticed as the failure."""
    signs = _with_tables_in_order(signs)
    signs = [replace(sign, role=LineRole.CASCADE) if _was_ended(sign, signs) else sign for sign in signs]
    failures = [sign for sign in signs if _is_a_failure(sign)]
    waited = [
        sign for sign in signs if sign.mode is nccl.COLLECTIVE_TIMED_OUT and sign.role is LineRole.SYMPTOM
    ]
    signs = [replace(sign, vague=True) if _came_after_another(sign, signs) else sign for sign in signs]
    noticed = [sign for sign in signs if sign.mode is nccl.CLOSED_BY_PEER]
    return [
        replace(sign, role=LineRole.CASCADE)
        if _followed(sign, failures) or _came_of_waiting(sign, waited)
        else replace(sign, role=LineRole.INITIATOR)
        if noticed and not failures and _was_only_noticed(sign, signs, noticed)
        else sign
        for sign in signs
    ]


def _came_after_another(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether a rank lost a peer when something else than communication had failed before in the same stream,
    of which a line says what, though little. That a process ended may have come after, as starters tell it
    late."""
    if sign.mode is not nccl.CLOSED_BY_PEER or sign.role is not LineRole.CASCADE:
        return False
    return any(
        other.role is LineRole.CASCADE
        and other.vague
        and other.stream == sign.stream
        and other.index < sign.index
        and (other.mode is not training_script.SCRIPT_RAISED or "what" in other.captured)
        and not other.code.startswith(_FAMILY_OF_NCCL)
        for other in signs
    )


def _with_tables_in_order(signs: Sequence[Sighting]) -> list[Sighting]:
    """The signs, of torchrun's tables in one stream the one first that tells of the earliest failure.

    Several hosts' agents write into one log in no order, and each table has the time of its first failure.
    """
    ordered = list(signs)
    tables: dict[str, list[tuple[float, int]]] = {}
    for number, sign in enumerate(ordered):
        seconds = _seconds_of_table(sign)
        if seconds is not None:
            tables.setdefault(sign.stream, []).append((seconds, number))
    for entries in tables.values():
        earliest, number = min(entries)
        stands_first, other = min(entries, key=lambda entry: ordered[entry[1]].index)
        if stands_first - earliest > _SAME_MOMENT:
            index = ordered[number].index
            ordered[number] = replace(ordered[number], index=ordered[other].index)
            ordered[other] = replace(ordered[other], index=index)
    return ordered


def _was_ended(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether the boot's watchdog (slipway/watchdog/wording.py) speaks of ranks that have ended, and one of
    them ended of itself with an exit code that is no exception's: the others stood still because of it."""
    gone = {int(rank) for rank in _GONE.findall(sign.captured.get("what", ""))}
    return bool(gone) and any(
        other.rank in gone and other.captured.get("exitcode", "0") not in _OF_NO_OWN for other in signs
    )


def _seconds_of_table(sign: Sighting) -> float | None:
    """When the failure of a table of torchrun's was, None for other signs."""
    if "exitcode" not in sign.captured:
        return None
    try:
        moment = datetime.fromisoformat(sign.captured.get("time", "").replace("_", "T"))
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC).timestamp()


def _followed(sign: Sighting, failures: Sequence[Sighting]) -> bool:
    if not sign.plumbing or sign.role is not LineRole.INITIATOR:
        return False
    return any(_is_anothers(other, sign) and not _long_after(other, sign) for other in failures)


def _is_a_failure(sign: Sighting) -> bool:
    if sign.index == BEFORE_ALL_LINES and sign.vague and sign.mode is nccl.COLLECTIVE_TIMED_OUT:
        return False  # The dumps that are there show who waits and not for whom: for whoever is gone as well.
    return not sign.plumbing and sign.role in (LineRole.INITIATOR, LineRole.SYMPTOM)


def _is_anothers(one: Sighting, other: Sighting) -> bool:
    """Whether two signs are of two processes, as far as the lines tell."""
    if one.rank is not None and other.rank is not None:
        return one.rank != other.rank
    return one.index != other.index or one.stream != other.stream


def _long_after(one: Sighting, other: Sighting) -> bool:
    """Whether one came so long after the other that no difference of clocks explains it."""
    if one.time is None or other.time is None or one.clock != other.clock:
        return False
    return one.time - other.time > APART


def _came_of_waiting(sign: Sighting, waited: Sequence[Sighting]) -> bool:
    """Whether a rank fails of what the end of its collective left behind: it had waited in vain before.

    NVIDIA and PyTorch say of the garbage that is read then, such as tensors of exabytes, to look at the
    collective. What the hardware says of itself counts all the same.
    """
    if sign.role is not LineRole.INITIATOR or sign.mode not in (
        hardware.CUDA_OUT_OF_MEMORY,
        training_script.SCRIPT_RAISED,
    ):
        return False
    return any(
        other.stream == sign.stream
        and other.rank is not None
        and other.rank == sign.rank
        and other.index < sign.index
        # Whom the line itself names did not come, and waited for nobody.
        and "rank" not in other.captured
        for other in waited
    )


_FAMILY_OF_NCCL = "NCCL"
"""How the codes begin of what fails in communication (docs/failure-modes.md)."""

_TERMINATED = "-15"
"""What torchrun does to the others."""

_OF_NO_OWN = ("0", "1", _TERMINATED)
"""The exit codes of ranks that came to their end, met an exception or were ended."""

_GONE = re.compile(r"\brank (\d{1,6}) has ended\b")


_OF_COMMUNICATION = re.compile(r"c10|gloo|nccl|dist|system_error|runtime_error", re.IGNORECASE)
"""Types of exceptions that torch's process groups, gloo and sockets throw."""

_ABORTED = frozenset({"-6", "134"})
"""How a process ends that torch's watchdog, or an exception in C++, takes down."""


def _was_only_noticed(sign: Sighting, signs: Sequence[Sighting], noticed: Sequence[Sighting]) -> bool:
    """Whether a rank ended in a way of its own without a word, and others say no more than that it was gone.

    An exit code of 1 is that of any exception, also of one that followed; and of several ranks that ended so
    some were ended by what they noticed.
    """
    if _was_killed_alone(sign, signs) or _crashed_first(sign, noticed):
        return True
    if not _ended_silently(sign, noticed):
        return False
    others = [other for other in signs if other.rank != sign.rank]
    if _aborted(sign) and any(_aborted(other) for other in others):
        return False  # So end all that noticed, whether or not their own lines are there.
    return not any(_ended_silently(other, noticed) for other in others)


def _was_killed_alone(sign: Sighting, signs: Sequence[Sighting]) -> bool:
    """Whether SLURM says that one task was killed, and of no other: it ends all others of a step at once."""
    if sign.role is not LineRole.CASCADE or "task" not in sign.captured:
        return False
    return not any(
        other.mode is sign.mode or other.mode is interruption.STOPPED for other in signs if other is not sign
    )


def _crashed_first(sign: Sighting, noticed: Sequence[Sighting]) -> bool:
    """Whether a process says itself how it crashed, before anything in its stream noticed another one's end.

    What libraries of communication throw in C++ follows from what they met.
    """
    if sign.role is not LineRole.CASCADE or {"type", "damage"}.isdisjoint(sign.captured):
        return False
    if _OF_COMMUNICATION.search(sign.captured.get("type", "")):
        return False
    return not any(other.stream == sign.stream and other.index < sign.index for other in noticed)


def _aborted(sign: Sighting) -> bool:
    return bool({sign.captured.get("exit"), sign.captured.get("exitcode")} & _ABORTED)


def _ended_silently(sign: Sighting, noticed: Sequence[Sighting]) -> bool:
    """Whether a rank is only known to have ended, in a way of its own, and has noticed nothing before."""
    if sign.role is not LineRole.CASCADE or sign.rank is None:
        return False
    if sign.captured.get("exitcode", "1") in ("1", _TERMINATED):
        return False
    return not any(
        other.rank == sign.rank or (other.rank is None and other.host == sign.host) for other in noticed
    )
