"""How far the step counters in a stream went: what was survived, and since when.

The numbers are read as everywhere (launcher/text/printed_metrics.py): steps, or epochs where no steps are
printed. A counter goes on where the same process prints a higher number than before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import nan

from launcher.diagnosis.signatures.table import FRAGMENTS
from launcher.text.printed_metrics import PrintedMetrics

_COUNTERS = ("step", "epoch")

_NOT_FINITE_UNSCALED = re.compile(
    rf"Skipping step(?:{FRAGMENTS['SMALLEST_SCALE']}|{FRAGMENTS['VANISHING_SCALE']})"
    r"|loss scale: 1\.0 \| grad norm: nan\b"
    rf"|{FRAGMENTS['NOTHING_LEARNED']}"
)
"""DeepSpeed's word for a step whose gradients overflow even at the smallest loss scale, in each of its
optimizers (deepspeed/runtime/fp16 and zero), apex's at one next to nothing, and Megatron's (training_log of
its training.py) for gradients that are NaN at that scale: what fits fp16 at no scale is not finite. Nor is
what the Trainer leaves out."""

_MOST_SPEAKERS = 4096
_MOST_MOMENTS = 64


@dataclass(frozen=True, slots=True)
class Moment:
    """Where in its stream something stands, and when it was printed; `clock` is the kind of `time`."""

    index: int
    clock: str | None = None
    time: float | None = None


@dataclass(slots=True)
class Course:
    """The step counters of one stream, since something in it failed or since its tail began.

    `since` is where a counter stood before it went on last: what failed earlier was survived, and nothing
    is known of what failed later. `steps` are the newest numbers and their moments, to compare hosts by.
    """

    since: Moment | None = None
    steps: dict[int, Moment] = field(default_factory=dict)
    _last: dict[tuple[object, str], tuple[float, Moment]] = field(default_factory=dict)

    def went_on(self, speaker: object, values: dict[str, float], moment: Moment) -> bool:
        """Take what a process printed into account; whether one of its counters went on with it."""
        further = False
        for name in _COUNTERS:
            value = values.get(name)
            if value is None:
                continue
            known = self._last.get((speaker, name))
            # The last lines are read twice: what a later one told is no step before this one.
            if known is not None and known[1].index < moment.index and value > known[0]:
                further = True
                if self.since is None or known[1].index > self.since.index:
                    self.since = known[1]
            if known is not None or len(self._last) < _MOST_SPEAKERS:
                self._last[speaker, name] = (value, moment)
            if name == "step" and moment.time is not None:
                self.steps.pop(int(value), None)
                self.steps[int(value)] = moment
                if len(self.steps) > _MOST_MOMENTS:
                    del self.steps[next(iter(self.steps))]
            break
        return further


_METRICS = PrintedMetrics()


def counters_in(text: str) -> dict[str, float]:
    """The step and the epoch that a line prints."""
    return counters_and_loss_in(text)[0]


def counters_and_loss_in(text: str) -> tuple[dict[str, float], float | None]:
    """The step and the epoch that a line prints, and the loss, which may be no finite number; None where it
    prints none.

    A step whose gradients are not finite at the smallest loss scale counts as one whose loss is no number.
    """
    values = _METRICS.values_in(text)
    counters = {name: values[name] for name in _COUNTERS if name in values}
    return counters, nan if _NOT_FINITE_UNSCALED.search(text) else values.get(_METRICS.loss)


def latest(moments: Iterable[Moment | None]) -> Moment | None:
    """The one that stands last in its stream."""
    return max((each for each in moments if each is not None), key=lambda each: each.index, default=None)
