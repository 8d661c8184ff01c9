"""How the place where a job ran says that it ended: plain words, whichever place it was."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StopCause(StrEnum):
    """What ended a job from outside."""

    ASKED = "asked"
    """Somebody or something asked for it: Ctrl-C, `launch stop`, a signal, StopTrainingJob."""
    MAX_RUNTIME = "max-runtime"
    """It ran for as long as its limits allow."""
    MAX_WAIT = "max-wait"
    """A spot job waited and ran for as long as its limits allow."""
    SPOT = "spot"
    """Its spot hosts were taken away for good."""
    LAUNCHER = "launcher"
    """A local run whose launcher was killed."""
    QUEUE = "queue"
    """It was taken out of its queue before any host was started for it."""


@dataclass(frozen=True, slots=True)
class Stop:
    """What ended a job from outside, and when.

    `who` says it in words, such as `Ctrl-C in its launcher (process 4711)`; None where the place does not
    know. `at` is in seconds since the epoch, `limit` the limit that was reached, in seconds.
    """

    cause: StopCause
    who: str | None = None
    at: float | None = None
    limit: float | None = None


class End(StrEnum):
    """What the place says of a job's end."""

    NOT_TOLD = "not-told"
    """Nobody says: there are only the lines."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended, as its place tells it; by default nobody does.

    `job` is the name under which the launcher can resume it, None where it cannot. `stop` is what ended, or
    is about to end, the job from outside. `checkpoints` is False where it is known to have left none.
    `restarted` is when its place started all its hosts anew for the last time, `trains_at` when that said
    that it still trains, by the clock of its lines; both in seconds since the epoch.
    """

    end: End = End.NOT_TOLD
    job: str | None = None
    stop: Stop | None = None
    checkpoints: bool = True
    restarted: float | None = None
    trains_at: float | None = None
