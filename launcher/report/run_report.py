"""What a page tells of a run: plain data, gathered elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from launcher.diagnosis.model import Diagnosis
from launcher.diagnosis.ranks import RankState
from launcher.failure_modes.model import Finding
from launcher.report.context import ContextLine
from launcher.report.reading import RunLines


@dataclass(frozen=True, slots=True)
class RunPhase:
    """A phase that the job was in; times in seconds since the epoch, `ended` None while it lasts."""

    name: str
    started: float
    ended: float | None


@dataclass(frozen=True, slots=True)
class RunJob:
    """What the place where a job runs says of it; nothing of this is known of log files.

    `ended_as` is the state as it is shown (Completed, Failed, Stopped), or the phase of a job that has not
    ended; `seconds` is the time since its start. `usd` is what its hosts cost for that time at the price of
    the plan, None where that is not known; `runs_here` says that it ran on this machine and cost nothing.
    """

    ended_as: str
    has_ended: bool
    seconds: float | None = None
    hosts: int | None = None
    processes_per_host: int | None = None
    instance_type: str | None = None
    phases: tuple[RunPhase, ...] = ()
    runs_here: bool = False

    @property
    def world_size(self) -> int | None:
        """The ranks of all hosts, where both are known."""
        if self.hosts is None or self.processes_per_host is None:
            return None
        return self.hosts * self.processes_per_host


@dataclass(frozen=True, slots=True)
class PlannedFinding:
    """What was found before the launch: code, `error`, `warning` or `info`, what is wrong, what to do, and
    whether the user accepted it."""

    code: str
    severity: str
    message: str
    remedy: str
    ignored: bool = False


@dataclass(frozen=True, slots=True)
class PlannedSetting:
    """A variable that the plan chose for the environment, why, and the user's where that stands instead."""

    name: str
    value: str
    reason: str
    yours: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """The plan that a job was launched from, as it may be shown: without credentials.

    `cost` are words with the price's day and region; `usd_per_hour` counts all hosts, None where no price is
    known.
    """

    findings: tuple[PlannedFinding, ...]
    settings: tuple[PlannedSetting, ...]
    request: dict[str, Any] | None
    job: dict[str, Any]
    cost: str
    usd_per_hour: float | None = None


@dataclass(frozen=True, slots=True)
class MarkedIncident:
    """The failure on the timeline: where (a time in seconds, or the number of a line, None where that is not
    known), and who. `is_exact` where the line that shows it stands there, else it is the last output of who
    failed."""

    at: float | None
    host: str | None
    rank: int | None
    is_exact: bool


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run as its page tells it.

    `name` is the job's, or what the log files are called; `made_at` is in seconds since the epoch. `ranks`
    is the table of ranks; `context` are the lines around the one that shows the root cause, or the last ones
    where that was not found; `warnings` are what a completed job's lines say against its success.
    """

    name: str
    diagnosis: Diagnosis
    lines: RunLines
    made_at: float
    version: str
    job: RunJob | None = None
    planned: PlannedRun | None = None
    ranks: tuple[RankState, ...] = ()
    incident: MarkedIncident | None = None
    context: tuple[ContextLine, ...] = ()
    warnings: tuple[Finding, ...] = field(default=())
