"""Where a log says that the job was started again or that training ended well, and how far its step
counters went.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import nan

from launcher.diagnosis.logs.lines import LogRecord, Record
from launcher.diagnosis.signatures import FRAGMENTS
from launcher.frozen import frozen
from launcher.text.log_lines import PrintedMetrics

# Where a log says that the job was started again, and where it says that training ended well.
#
# Texts: torch/distributed/elastic/agent/server/api.py of PyTorch 1.10 to 2.13 (at LOGLEVEL=INFO); the first
# line of the boot (slipway/boot.py) and of sagemaker-training-toolkit, which every start of a container
# prints once; SageMaker's secondary status; SkyPilot's controller (jobs/state.py); the ends of Lightning,
# Hugging Face's Trainer and what scripts print.


ATTEMPT_LITERALS = (
    "will restart worker group",
    "restarting worker group",
    "restart_count=",
    "secondarystatus: restarting",
    "requeued",
    "slurm_restart_count",
    "=== recovered. ===",
    ", host 1 of ",
    "invoking user script",
    "`trainer.fit` stopped",
    "train_runtime",
    "training complete",
    "training finished",
    "finished training",
    "training is complete",
    "training done",
    "done training",
    "exited with code 0",
    "processes exited 0",
    "worker group successfully finished",
)
"""Lower-case parts of the lines that say so, as in the rows of the signatures."""

_RESTARTING = "SecondaryStatus: Restarting"
_RESTART_LINE = re.compile(
    r"will restart worker group|\bRestarting worker group\b|\brestart_count=[1-9]"
    r"|SecondaryStatus: Restarting\b|\brequeued\b.{0,40}\brestart|\bSLURM_RESTART_COUNT[=: ]{1,2}[1-9]"
    r"|=== Recovered\. ==="
)
_BY_BOOT = re.compile(r"^slipway: \S{1,100}, host 1 of \d{1,6}: ")
_BY_TOOLKIT = re.compile(r"\bInvoking user script\s*$")
_ENDED_WELL = re.compile(
    r"`Trainer\.fit` stopped: `max_(?:epochs|steps)|['\"]train_runtime['\"]?\s?:"
    r"|\btraining (?:is )?(?:completed?|finished|done)\b|\b(?:finished|done) training\b"
    r"|\b(?:all|(?P<some>\d{1,7}) of (?P=some)) (?:\d{1,7} )?"
    r"(?:ranks|processes|workers|tasks) exited (?:with code )?0\b"
    r"|\bworker group successfully finished\b",
    re.I,
)
_NOT_ENDED_WELL = re.compile(r"\b(?:not|never|until|before|when|after|once|unless|if)\b", re.I)


_OF_ATTEMPT = re.compile(r"^(?P<before>.*)/attempt_(?P<number>\d{1,4})/")


def superseded_streams(streams: Iterable[str]) -> frozenset[str]:
    """The streams, by their paths, in torchrun's folders of attempts that another attempt followed."""
    attempts = [
        (name, match["before"], int(match["number"]))
        for name in streams
        if (match := _OF_ATTEMPT.match(name))
    ]
    last: dict[str, int] = {}
    for _, before, number in attempts:
        last[before] = max(number, last.get(before, 0))
    return frozenset(name for name, before, number in attempts if number < last[before])


def says_started_again(text: str) -> bool:
    """Whether a line says that the ranks, or the job, are started once more."""
    return _RESTART_LINE.search(text) is not None


def cut_at_restart(lines: Iterable[LogRecord], at: float) -> Iterator[LogRecord]:
    """The lines, and in each stream where the place started the hosts anew a line that says so: before its
    first line from that time on, else at its end."""
    open_streams: dict[str, str] = {}
    cut: set[str] = set()
    for line in lines:
        if line.stream not in cut:
            if line.time is not None and line.time >= at:
                cut.add(line.stream)
                if open_streams.pop(line.stream, None) is not None:
                    yield Record(at, line.host, _RESTARTING, line.stream)
            else:
                open_streams[line.stream] = line.host
        yield line
    for stream, host in open_streams.items():
        yield Record(at, host, _RESTARTING, stream)


def is_first_line(text: str) -> bool:
    """Whether a line is one that a container prints once, at its start: the second one is another start."""
    return _BY_BOOT.search(text) is not None or is_toolkits_start(text)


def is_toolkits_start(text: str) -> bool:
    """Whether the images' toolkit says that it starts the script, whose end it always tells as well."""
    return _BY_TOOLKIT.search(text) is not None


def says_ended_well(text: str) -> bool:
    """Whether a script or its library says that training came to its end."""
    match = _ENDED_WELL.search(text)
    return match is not None and not _NOT_ENDED_WELL.search(text, 0, match.start())


# How far the step counters in a stream went: what was survived, and since when.
#
# The numbers are read as everywhere (launcher/text/log_lines.py): steps, or epochs where no steps are
# printed. A counter goes on where the same process prints a higher number than before.


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

_GRADIENTS_NOT_FINITE = re.compile(
    r"\bgrad(?:ient)?[_ ]?norm['\"]?\s{0,3}[:=]?\s{0,3}(?:tensor\()?['\"]?-?(?:nan|inf)\b", re.I
)
_SCALED = re.compile(r"\bloss scale: (?!1\.0 )")
"""A loss scale that can still fall: gradients that overflow at it are nothing yet."""

_MOST_SPEAKERS = 4096
_MOST_MOMENTS = 64
_MOST_SEEN = 8


@frozen
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
    seen: dict[int, Moment] = field(default_factory=dict)
    """The first number of each of a few processes that counted on after it, and where it stood."""
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
                if len(self.seen) < _MOST_SEEN:
                    self.seen.setdefault(int(value), known[1])
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
    prints none, or a mean of all.

    A step whose gradients are not finite at the smallest loss scale counts as one whose loss is no number.
    """
    values = _METRICS.values_in(text)
    counters = {name: values[name] for name in _COUNTERS if name in values}
    loss = None if says_ended_well(text) else values.get(_METRICS.loss)
    return counters, nan if _NOT_FINITE_UNSCALED.search(text) else loss


def are_gradients_lost(text: str) -> bool:
    """Whether a line prints a norm of gradients that is no number, at a loss scale that cannot fall."""
    return _GRADIENTS_NOT_FINITE.search(text) is not None and _SCALED.search(text) is None


def latest(moments: Iterable[Moment | None]) -> Moment | None:
    """The one that stands last in its stream."""
    return max((each for each in moments if each is not None), key=lambda each: each.index, default=None)
