"""Whether the ranks of a job are started again: pure, so that hosts with the same answers agree."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

AFTER: Mapping[str, str] = {
    "MEM002": "a rank was killed, and need not be again",
    "NCCL004": "a rank kept the others waiting, and need not again",
    "NCCL006": "a rank lost another one, and the connection may hold the next time",
    "NCCL008": "a host came too late, and may come in time",
    "NCCL009": "a port was taken, and the next start has another one",
}
"""Failure modes after which the same start may well succeed, as long as the job gets on. Any other, such as
an exception of the script, is given one chance: the second time at the same line it is the script's own."""

NEVER: Mapping[str, str] = {
    "CKPT003": "the script lets one rank save alone, and would again",
    "CKPT005": "the checkpoint is another model's, and stays so",
    "CODE002": "the script would get the same arguments",
    "CODE005": "a package that is missing stays missing",
    "DATA001": "the ranks have different numbers of batches, and would again",
    "DATA005": "shared memory stays as small",
    "DISK001": "a full disk stays full",
    "DIST001": "the processes would be as many again",
    "DIST003": "the processes would be as many again",
    "HW001": "this hardware is broken, and other hosts are needed",
    "HW002": "this hardware is broken, and other hosts are needed",
    "IAM002": "the role's permissions stay what they are",
    "IMG002": "the driver and the image stay what they are",
}
"""Failure modes that the same start on the same hosts would have again."""

HARDWARE = ("HW001", "HW002")
"""Those that end the job so that the launcher takes other hosts."""

_NEVER_BY_EXCEPTION: Mapping[str, str] = {
    "ImportError": "the same import would fail again",
    "ModuleNotFoundError": "the same import would fail again",
    "SyntaxError": "the script stays what it is",
    "IndentationError": "the script stays what it is",
}

_KIND = re.compile(r"[\w.]{1,200}(?=:|\Z)")


@dataclass(frozen=True)
class RanksEnd:
    """How the ranks of one host ended.

    `code` is the failure mode, None where they did not fail by themselves; `text` what the failure file is to
    say of it, `message` the exception or what else was said, `place` where. `weight` and `time` tell a cause
    from its consequences (`slipway.evidence.SYMPTOMS`). `stalled` is a verdict of the watchdog. `lasted` is
    in seconds. `steps` are those of the rank that made most, 0 where nobody counts them; `checkpoint` is the
    step of the newest complete one here, -1 without one. `port` is free on this host.
    """

    exit_code: int
    code: str | None
    text: str
    message: str
    place: str | None
    weight: int
    time: float
    stalled: bool
    lasted: float
    steps: int
    checkpoint: int
    port: int

    @property
    def same_as(self) -> tuple[str, str, str | None]:
        """What two ends of the same kind have in common: the code, the exception's name, and its line."""
        kind = _KIND.match(self.message)
        return self.code or "", kind[0] if kind else self.message, self.place


@dataclass(frozen=True)
class JobEnd:
    """How one start of the job ended: its root cause, on which host, and how far it came."""

    host: str
    cause: RanksEnd
    steps: int
    checkpoint: int


@dataclass(frozen=True)
class RestartDecision:
    """Whether there is another start, and why."""

    again: bool
    why: str


def end_of_job(ends: Mapping[str, RanksEnd]) -> JobEnd:
    """What the hosts' ends come to, at least one of them a failure.

    Broken hardware explains everything else, and a verdict of the watchdog all that followed it.
    """
    failed = [(host, end) for host, end in ends.items() if end.exit_code != 0]

    def order(named: tuple[str, RanksEnd]) -> tuple[bool, bool, bool, int, float, str]:
        host, end = named
        broken = end.code in HARDWARE
        return not broken, not end.stalled, end.code is None, end.weight, end.time, host

    host, cause = min(failed, key=order)
    return JobEnd(
        host,
        cause,
        max(end.steps for end in ends.values()),
        max(end.checkpoint for end in ends.values()),
    )


def decide(end: JobEnd, before: Sequence[JobEnd], allowed: int) -> RestartDecision:
    """Whether the job is started once more after this end; `before` are those of its earlier starts, and
    `allowed` how many restarts there may be in all."""
    cause, code = end.cause, end.cause.code or ""
    never = NEVER.get(code) or _NEVER_BY_EXCEPTION.get(cause.same_as[1])
    if never is not None:
        return RestartDecision(False, never)
    if len(before) >= allowed:
        return RestartDecision(False, f"{_times(allowed)} allowed")
    if code not in AFTER and any(cause.same_as == earlier.cause.same_as for earlier in before):
        where = f" at {cause.place}" if cause.place else ""
        return RestartDecision(False, f"the same failed{where} before")
    if before and not _came_further(end, before):
        return RestartDecision(
            False, "it came no further than the start before: no newer checkpoint, no more steps"
        )
    return RestartDecision(True, AFTER.get(code, "this may have been once"))


def _came_further(end: JobEnd, before: Sequence[JobEnd]) -> bool:
    return end.checkpoint > max(each.checkpoint for each in before) or end.steps > before[-1].steps


def _times(count: int) -> str:
    return "1 restart was" if count == 1 else f"{count} restarts were"
