"""What a page shows of a run: its lines, read once into summaries, and plain data that is gathered
elsewhere.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from launcher.diagnosis.logs.lines import LogRecord
from launcher.diagnosis.model import Diagnosis, RankState, RootCause
from launcher.experiments.fabric_proof import RECORD_MARK, BadRecord, FabricRecord, record_in
from launcher.failure_modes.model import Finding
from launcher.frozen import frozen
from launcher.report.summaries import (
    Activity,
    ContextLine,
    LongSeries,
    LossPoint,
    NearbyLines,
    StepPace,
    Writer,
)
from launcher.text.log_lines import PrintedMetrics, printed_time


@frozen
class RunPhase:
    """A phase that the job was in; times in seconds since the epoch, `ended` None while it lasts."""

    name: str
    started: float
    ended: float | None


@frozen
class RunJob:
    """What the place where a job runs says of it; nothing of this is known of log files.

    `ended_as` is the state as it is shown (Completed, Failed, Stopped), or the phase of a job that has not
    ended; `seconds` is the time since its start. `runs_here` says that it ran on this machine and cost
    nothing, `bills` whether its hosts have a price that is known. `billed` is for how many seconds each of
    its hosts is billed, `usd` what all of them cost then, None where that is not known; `parts` are these
    seconds by what they went to.
    """

    ended_as: str
    has_ended: bool
    seconds: float | None = None
    hosts: int | None = None
    processes_per_host: int | None = None
    instance_type: str | None = None
    phases: tuple[RunPhase, ...] = ()
    runs_here: bool = False
    bills: bool = True
    billed: float | None = None
    usd: float | None = None
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def world_size(self) -> int | None:
        """The ranks of all hosts, where both are known."""
        if self.hosts is None or self.processes_per_host is None:
            return None
        return self.hosts * self.processes_per_host


@frozen
class PlannedFinding:
    """What was found before the launch: code, `error`, `warning` or `info`, what is wrong, what to do, and
    whether the user accepted it."""

    code: str
    severity: str
    message: str
    remedy: str
    ignored: bool = False


@frozen
class PlannedSetting:
    """A variable that the plan chose for the environment, why, and the user's where that stands instead."""

    name: str
    value: str
    reason: str
    yours: str | None = None


@frozen
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


@frozen
class MarkedIncident:
    """The failure on the timeline: where (a time in seconds, or the number of a line, None where that is not
    known), and who. `is_exact` where the line that shows it stands there, else it is the last output of who
    failed."""

    at: float | None
    host: str | None
    rank: int | None
    is_exact: bool


@frozen
class RunReport:
    """A run as its page shows it.

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


STREAM, ISO, GLOG = "stream", "iso", "glog"
"""The clocks of lines: the stream's own times, times that the lines print, and such without a year."""

_CLOCKS = (GLOG, ISO, STREAM)
"""The weaker first: a better clock that appears takes the place of the one before."""

_WHERE_A_TIME_STANDS = 80
"""Characters at the beginning of a line in which its own time is; further on a time is a part of its
message."""

_OF_THE_BOOT = "slipway: "

_SHORTEST_IN_SECONDS, _SHORTEST_IN_LINES = 5.0, 20.0
"""Silences up to these mean nothing: steps take seconds, and ranks print by turns."""

_LONGEST_RUN = 28 * 24 * 3600
"""Seconds; no training job runs longer (SageMaker API reference, StoppingCondition). A time that is further
from the first one is not the line's."""


@dataclass(slots=True)
class BadLoss:
    """The first loss that was no number: as it was printed, by which line, at which step and time."""

    value: float
    point: LossPoint


@dataclass(slots=True)
class RunLines:
    """What was kept of a run's lines.

    `clock` is the clock of the times, None where no line has one; then `activity` counts lines instead of
    seconds. `steps_are` is `step` or `epoch`, by what the script counts. `proof` is what the job of
    `launch proof` has measured, None of all others.
    """

    lines: int
    clock: str | None
    activity: Activity
    context: NearbyLines
    ranks: tuple[RankState, ...]
    loss_name: str
    loss: LongSeries
    bad_loss: BadLoss | None
    pace: StepPace
    steps_are: str
    loss_rank: int | None = None
    proof: FabricRecord | None = None


@dataclass(slots=True)
class _RankSoFar:
    host: str
    last_output: float | None = None
    steps: dict[str, float] = field(default_factory=dict)


class RunReader:
    """Reads the lines of a run; what is kept does not grow with their number.

    `definitions` are the job's own metrics, name to regular expression.
    """

    def __init__(self, definitions: Mapping[str, str] | None = None) -> None:
        self._metrics = PrintedMetrics(definitions)
        self._order = 0
        self._by_order = Activity(1.0, _SHORTEST_IN_LINES)
        self._by_time = Activity(0.25, _SHORTEST_IN_SECONDS)
        self._clock: str | None = None
        self._first = 0.0
        self._host_times: dict[str, float] = {}
        self._context = NearbyLines()
        self._ranks: dict[int, _RankSoFar] = {}
        self._speaker: Writer | None = None
        self._loss = LongSeries()
        self._bad: BadLoss | None = None
        self._proof: FabricRecord | None = None
        self._paces = {"step": StepPace(), "epoch": StepPace()}

    def read(self, record: LogRecord, rank: int | None) -> None:
        """The next line, and the global rank that printed it where that is known."""
        self._order += 1
        host, text = record.host, record.text
        time = self._time_of(record)
        self._by_order.add((host, rank), self._order)
        if time is not None:
            self._by_time.add((host, rank), time)
        if rank is not None:
            state = self._ranks.setdefault(rank, _RankSoFar(host))
            state.last_output = time if time is not None else state.last_output
        self._context.add(ContextLine(text, host, rank, self._order, time))
        if RECORD_MARK in text:
            # A broken one stays a line among the others.
            with contextlib.suppress(BadRecord):
                self._proof = record_in(text) or self._proof
        values = self._metrics.values_in(text)
        # What the boot says of a rank's loss is no loss of its own.
        if values and not text.startswith(_OF_THE_BOOT):
            self._measure(values, (host, rank), time)

    def result(self) -> RunLines:
        """What was kept so far."""
        timed = self._clock is not None
        steps_are = "step" if self._paces["step"].writers or not self._paces["epoch"].writers else "epoch"
        return RunLines(
            lines=self._order,
            clock=self._clock,
            activity=self._by_time if timed else self._by_order,
            context=self._context,
            ranks=tuple(
                RankState(
                    rank,
                    host=state.host or None,
                    last_output=state.last_output if self._clock in (STREAM, ISO) else None,
                    step=_whole(state.steps.get(steps_are)),
                )
                for rank, state in sorted(self._ranks.items())
            ),
            loss_name=self._metrics.loss,
            loss=self._loss,
            bad_loss=self._bad,
            pace=self._paces[steps_are],
            steps_are=steps_are,
            loss_rank=None if self._speaker is None else self._speaker[1],
            proof=self._proof,
        )

    def _time_of(self, record: LogRecord) -> float | None:
        """When the line was printed; where it has no time of its own, the last one of its host."""
        clock, time = STREAM, record.time
        if time is None:
            printed = printed_time(record.text[:_WHERE_A_TIME_STANDS])
            if printed is not None:
                clock, time = printed
        if time is None or not self._adopts(clock, time):
            return self._host_times.get(record.host)
        self._host_times[record.host] = time
        return time

    def _adopts(self, clock: str, time: float) -> bool:
        """Whether a time counts. With the first one of a better clock everything timed begins anew."""
        if clock == self._clock:
            return abs(time - self._first) < _LONGEST_RUN
        if self._clock is not None and _CLOCKS.index(clock) < _CLOCKS.index(self._clock):
            return False
        self._clock, self._first = clock, time
        self._by_time = Activity(0.25, _SHORTEST_IN_SECONDS)
        self._host_times.clear()
        self._paces = {"step": StepPace(), "epoch": StepPace()}
        return True

    def _measure(self, values: Mapping[str, float], writer: Writer, time: float | None) -> None:
        step = self._step(values, writer, time)
        loss = values.get(self._metrics.loss)
        if loss is None or not self._speaks(writer):
            return
        point = LossPoint(loss, self._order, time, step)
        if math.isfinite(loss):
            self._loss.add(point)
        elif self._bad is None:
            self._bad = BadLoss(loss, point)

    def _step(self, values: Mapping[str, float], writer: Writer, time: float | None) -> float | None:
        """The step that a line prints, or the epoch where it prints no step."""
        for name in ("step", "epoch"):
            step = values.get(name)
            if step is None or not math.isfinite(step):
                continue
            if writer[1] is not None:
                self._ranks[writer[1]].steps[name] = step
            if time is not None:
                self._paces[name].add(writer[1], step, time)
        return values.get("step", values.get("epoch"))

    def _speaks(self, writer: Writer) -> bool:
        """Whether the losses of this writer are read: those of one alone, of rank 0 as soon as it prints."""
        if self._speaker is None:
            self._speaker = writer
        elif writer[1] == 0 and self._speaker[1] != 0:
            self._speaker, self._loss, self._bad = writer, LongSeries(), None
        return writer == self._speaker


def _whole(step: float | None) -> int | None:
    return None if step is None else int(step)


def locate_incident(
    cause: RootCause | None, lines: RunLines
) -> tuple[MarkedIncident | None, tuple[ContextLine, ...]]:
    """The incident on the timeline, and its traceback, else the lines around the one that shows it.

    Where that line was not found, the place is the last output of the rank or host that failed, and the lines
    are the last ones of its host. Both are empty where there is no root cause.
    """
    if cause is None:
        return None, ()
    context, who = lines.context, (cause.host, cause.rank)
    found = (
        context.traceback_of([cause.log_line], *who)
        or context.around(cause.log_line, *who)
        or context.traceback_of(cause.evidence, *who, consequences=False)
    )
    shows = next((line for line in found if line.is_cause), None)
    if shows is not None:
        at = shows.time if lines.clock is not None else float(shows.order)
        rank = cause.rank if cause.rank is not None else shows.rank
        return MarkedIncident(at, cause.host or shows.host or None, rank, is_exact=at is not None), found
    last = [
        printed.last
        for (host, rank), printed in lines.activity.printed.items()
        if (rank == cause.rank if cause.rank is not None else host == cause.host)
    ]
    at = max(last, default=None)
    return MarkedIncident(at, cause.host, cause.rank, is_exact=False), lines.context.last_lines(cause.host)


NOT_KEPT = "(not kept)"

_WITH_VALUES = ("Environment", "HyperParameters", "environment", "hyperparameters")
"""Parts of a request and of a job file whose values may be secrets that nothing marks as such."""


def summary_to_json(planned: PlannedRun) -> dict[str, Any]:
    """The summary as it is kept: of variables and hyperparameters the names."""
    content = asdict(planned)
    for part in (content["request"], content["job"]):
        for name in _WITH_VALUES:
            if part and isinstance(part.get(name), dict):
                part[name] = dict.fromkeys(part[name], NOT_KEPT)
    for setting in content["settings"]:
        if setting["yours"] is not None:
            setting["yours"] = f"{setting['yours'].partition('=')[0]}={NOT_KEPT}"
    return content


def summary_from_json(content: dict[str, Any]) -> PlannedRun:
    """A summary that was kept. Raises KeyError, TypeError or ValueError for what is none."""
    price = content["usd_per_hour"]
    request, job = content["request"], content["job"]
    if not isinstance(job, dict) or not isinstance(request, dict | None):
        raise TypeError("a kept plan holds a job and its request")
    return PlannedRun(
        findings=tuple(PlannedFinding(**each) for each in content["findings"]),
        settings=tuple(PlannedSetting(**each) for each in content["settings"]),
        request=request,
        job=job,
        cost=str(content["cost"]),
        usd_per_hour=None if price is None else float(price),
    )
