"""A run's lines, read once, as the summaries that a page is made of: who printed when, losses, step times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.diagnosis.ranks import RankState
from launcher.diagnosis.record import LogRecord
from launcher.report.activity import Activity, Writer
from launcher.report.context import ContextLine, NearbyLines
from launcher.report.pace import StepPace
from launcher.report.series import LongSeries, LossPoint
from launcher.text.line_origin import printed_time
from launcher.text.printed_metrics import PrintedMetrics

STREAM, ISO, GLOG = "stream", "iso", "glog"
"""The clocks of lines: the stream's own times, times that the lines print, and such without a year."""

_CLOCKS = (GLOG, ISO, STREAM)
"""The weaker first: a better clock that appears takes the place of the one before."""

_WHERE_A_TIME_STANDS = 80
"""Characters at the beginning of a line in which its own time is; further on it is what the line tells of."""

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
    seconds. `steps_are` is `step` or `epoch`, by what the script counts.
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
        values = self._metrics.values_in(text)
        if values:
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
        """The step that a line tells, or the epoch where it tells no step."""
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
