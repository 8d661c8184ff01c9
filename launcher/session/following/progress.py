"""How far a training is: step, loss and speed, picked from the lines that it prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from launcher.backends.interface import LogLine
from launcher.session.following.log_filter import rank_of
from launcher.text.printed_metrics import PrintedMetrics

_LONGEST_CURVE = 1024
_BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """The newest value of each metric by its name, and the values so far of the one that is drawn."""

    values: Mapping[str, float]
    drawn: str | None = None
    curve: Sequence[float] = ()

    @property
    def step(self) -> float | None:
        """The newest step, or epoch where no steps are printed."""
        return self.values.get("step", self.values.get("epoch"))


class RankMetrics:
    """The metrics that one rank prints, picked from all lines in their order.

    `definitions` are the job's own, name to regular expression as the service takes them; step, loss and
    speed are found by built-in ones where the job has none for them. All ranks may print the same metric:
    the values are those of the one rank or host that printed one first, or of rank 0 as soon as it does.
    `loss` is the name of the loss; `taken_over` is how often another rank was read from then on.
    """

    def __init__(
        self, definitions: Mapping[str, str] | None = None, processes_per_host: int | None = None
    ) -> None:
        self.taken_over = 0
        self._processes_per_host = processes_per_host
        self._metrics = PrintedMetrics(definitions)
        self._speaker: tuple[str, int | None] | None = None
        self.loss = self._metrics.loss

    def of(self, line: LogLine) -> dict[str, float]:
        """The metrics in a line by their names; none in the lines of other ranks."""
        current = self._speaker
        # Nobody takes over from rank 0, so the lines of all others need not be looked into. The host tells
        # most of them apart, and costs next to nothing.
        if current and current[1] == 0 and (line.host != current[0] or self._speaker_of(line) != current):
            return {}
        values = self._metrics.values_in(line.text)
        if not values:
            return {}
        speaker = self._speaker_of(line)
        if current is None or (speaker[1] == 0 and current[1] != 0):
            self.taken_over += current is not None
            self._speaker = speaker
        return values if speaker == self._speaker else {}

    def _speaker_of(self, line: LogLine) -> tuple[str, int | None]:
        return line.host, rank_of(line, self._processes_per_host)


class ProgressReader:
    """How far a training is, by the metrics of one rank; fed with all lines in their order."""

    def __init__(
        self, definitions: Mapping[str, str] | None = None, processes_per_host: int | None = None
    ) -> None:
        self._metrics = RankMetrics(definitions, processes_per_host)
        self._values: dict[str, float] = {}
        self._curve: list[float] = []
        self._stride = 1
        self._skipped = 0

    def read(self, lines: Sequence[LogLine]) -> TrainingProgress | None:
        """The progress after these lines; None where they hold no metric of the rank that is read."""
        found = False
        for line in lines:
            values = self._metrics.of(line)
            found |= bool(values)
            self._values.update(values)
            loss = values.get(self._metrics.loss)
            if loss is not None and math.isfinite(loss):
                self._draw(loss)
        return TrainingProgress(dict(self._values), self._metrics.loss, tuple(self._curve)) if found else None

    def _draw(self, value: float) -> None:
        """Keep a bounded number of points: each time they are too many, every second one."""
        self._skipped += 1
        if self._skipped < self._stride:
            return
        self._skipped = 0
        self._curve.append(value)
        if len(self._curve) > _LONGEST_CURVE:
            self._curve = self._curve[::2]
            self._stride *= 2


def curve_in_blocks(values: Sequence[float], width: int) -> str:
    """A small curve, one character a column: the mean of the values that fall into it.

    The lowest is the lowest block; an even curve is drawn low.
    """
    columns = min(width, len(values))
    if columns < 1:
        return ""
    edges = [len(values) * column // columns for column in range(columns + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    if span <= 0:
        return _BLOCKS[0] * columns
    return "".join(_BLOCKS[min(7, int(8 * (mean - low) / span))] for mean in means)
