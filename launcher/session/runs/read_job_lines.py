"""The lines of a followed job: which are shown, how far the training is, and whether it stands still."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from launcher.backends.interface import JobStatus, LogLine
from launcher.cluster.names import HOST_NAME, host_name
from launcher.diagnosis.logs.lines import LogRecord, parse
from launcher.diagnosis.logs.tracebacks import Traceback, open_traceback
from launcher.failure_modes import capacity, checkpoints, data, images, nccl, network, storage
from launcher.failure_modes.model import FailureMode, Refusal
from launcher.frozen import frozen
from launcher.session.runs.estimate_end import PaceReader
from launcher.text.log_lines import LONGEST_LINE, Origin, PrintedMetrics, origin_of
from launcher.text.values import duration_in_words, parse_duration, without_controls


@frozen
class LogFilter:
    """Which lines to show: those that fulfil all conditions; None is no condition.

    `hosts` are names such as `algo-2`: the lines of their streams, and those that mpirun collected from them
    into another host's. `rank` is a global rank, `pattern` is searched in the text, and `since` is in seconds
    since the epoch. `processes_per_host` gives local ranks, and unmarked lines of hosts with one process,
    their global rank.
    """

    hosts: frozenset[str] | None = None
    rank: int | None = None
    pattern: re.Pattern[str] | None = None
    since: float | None = None
    processes_per_host: int | None = None

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The lines that fulfil every condition, in their order."""
        return [line for line in lines if self.matches(line)]

    def rest(self) -> list[LogLine]:
        """Nothing: each line is judged by itself."""
        return []

    def matches(self, line: LogLine) -> bool:
        """Whether a line fulfils every condition."""
        if self.since is not None and line.time < self.since:
            return False
        if self.hosts is not None and line.host not in self.hosts and _origin(line).host not in self.hosts:
            return False
        if self.rank is not None and rank_of(line, self.processes_per_host) != self.rank:
            return False
        return self.pattern is None or self.pattern.search(line.text) is not None


def log_filter(
    job: JobStatus,
    *,
    hosts: Sequence[str | int] = (),
    rank: int | None = None,
    grep: str | None = None,
    since: str | None = None,
) -> LogFilter:
    """The filter of a job's lines by what a person asks for; a host is `algo-2` or its number.

    Raises Refusal for a host or a rank that the job does not have, and for an expression or a time that is
    none.
    """
    if rank is not None:
        check_rank(rank, job.processes_per_host, job.hosts)
    return LogFilter(
        hosts=frozenset(_host(job, each) for each in hosts) if hosts else None,
        rank=rank,
        pattern=compile_pattern(grep) if grep else None,
        since=parse_since(since, datetime.now().astimezone()).timestamp() if since else None,
        processes_per_host=job.processes_per_host,
    )


def check_rank(rank: int, processes_per_host: int | None, hosts: int | None) -> None:
    """Raise Refusal for a rank that a job of so many hosts does not have; what is not known forbids none."""
    world = processes_per_host * hosts if processes_per_host and hosts else None
    if rank < 0 or (world is not None and rank >= world):
        has = f": it has {hosts} hosts with {processes_per_host} processes each" if world else ""
        raise Refusal(
            f"the job has no rank {rank}{has}.",
            f"Give a rank from 0 to {world - 1}." if world else "Give a rank from 0 on.",
        )


def _host(job: JobStatus, given: str | int) -> str:
    host = host_name(given) if isinstance(given, int) or given.isdecimal() else given
    if job.hosts and host not in set(map(host_name, range(1, job.hosts + 1))):
        raise Refusal(f"{job.name} has no host {given}.", f"Give {host_name(1)} to {host_name(job.hosts)}.")
    return host


def rank_of(line: LogRecord, processes_per_host: int | None = None) -> int | None:
    """The global rank that printed a line, None where the line does not tell.

    Hosts have their ranks in the order of their numbers, as the boot and the toolkit give them.
    """
    origin = _origin(line)
    if origin.rank is not None or processes_per_host is None:
        return origin.rank
    host = HOST_NAME.fullmatch(origin.host or "") or HOST_NAME.fullmatch(line.host)
    local_rank = 0 if processes_per_host == 1 else origin.local_rank
    if host is None or local_rank is None:
        return None
    return (int(host[1]) - 1) * processes_per_host + local_rank


def _origin(line: LogRecord) -> Origin:
    return origin_of(without_controls(line.text[:LONGEST_LINE]))


def compile_pattern(text: str) -> re.Pattern[str]:
    """The regular expression of `--grep`; raises Refusal for a text that is not one."""
    try:
        return re.compile(text)
    except re.error as error:
        raise Refusal(
            f"--grep {text!r} is not a regular expression: {error}.", "Escape special characters with \\."
        ) from None


def parse_since(text: str, now: datetime) -> datetime:
    """`10m`, `2h30m`, `7d` before now, or a time such as 2026-08-20T11:30, in `now`'s zone unless it has one.

    `now` is this machine's time: a span is only as right as its clock, a time with a zone is not affected.
    Raises Refusal for anything else.
    """
    try:
        return now - timedelta(seconds=parse_duration(text))
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(
            f"--since {text!r} is neither a span nor a time.", "Write it like 10m, 7d or 2026-08-20T11:30."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo or UTC)


# What is shown of a followed job with many ranks: rank 0, and whatever goes wrong on any other.
#
# Sixty-four ranks print sixty-four times the same. What torchrun prints when a rank has failed, forty lines
# on each host, says less than the diagnosis that follows it, and is folded away.


_ERRORS = (
    "ERROR",
    "FATAL",
    "CRITICAL",
    "Error:",
    "Exception:",
    " error:",
    "NCCL WARN",
    "Segmentation fault",
    "out of memory",
    "terminate called",
    "what():",
)
_WARNINGS = ("WARN", "Warning:", "warning:")
_OF_SLIPWAY = "slipway: "
_TORCHRUNS = ("failed (exitcode: ", " closing signal SIG", " death signal, ")
_TORCHRUNS_EXCEPTIONS = ("ChildFailedError", "SignalException")
_EDGE = "=" * 20
_MOST_FOLDED = 400
"""Lines of torchrun's table; more cannot be one."""


@dataclass(slots=True)
class _Writer:
    """The process whose lines these are: the traceback that it is printing, and what is held back of it."""

    traceback: Traceback | None = None
    held: list[LogLine] = field(default_factory=list)
    edges: int = 0
    folding: int = 0


class Digest:
    """Chooses the lines of rank 0 and of the first host, warnings of the other hosts, errors of every rank.

    Of a traceback that another rank has printed, only the exception is shown, which may tell more.

    `processes_per_host` is None where it is not known; `world_size` 1 hides nobody. `tell` is called once,
    when the first line of another rank is left out.
    """

    def __init__(
        self, processes_per_host: int | None, world_size: int | None, tell: Callable[[], None] = lambda: None
    ) -> None:
        self._processes_per_host = processes_per_host
        self._hides = world_size != 1
        self._tell = tell
        self._told = False
        self._writers: dict[tuple[str, int | str | None], _Writer] = {}
        self._shown: set[tuple[str, ...]] = set()

    def keep(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The chosen lines, in their order; those of a traceback may come with a later call."""
        kept: list[LogLine] = []
        for line in lines:
            kept += self._keep(line)
        return kept

    def rest(self) -> list[LogLine]:
        """What is held back still, as the job ended in the middle of it."""
        rest = [line for writer in self._writers.values() for line in writer.held]
        self._writers.clear()
        return rest

    def _keep(self, line: LogLine) -> list[LogLine]:
        rank = rank_of(line, self._processes_per_host)
        parsed = parse(line.text[:LONGEST_LINE])
        # torchrun's own lines have no mark, also where one process on each host tells their rank.
        unmarked = parsed.rank is None and parsed.writer is None
        writer = self._writers.setdefault((line.host, parsed.writer), _Writer())
        if unmarked and self._is_folded(writer, parsed.text):
            return []
        if writer.traceback is None:
            writer.traceback = open_traceback(parsed.text)
            if writer.traceback is None:
                return [line] if self._is_chosen(line, rank, parsed.text) else self._hide()
        else:
            writer.traceback.add_line(parsed.text)
        if unmarked:
            # Whose it is tells its last line alone.
            writer.held.append(line)
            return self._released(writer)
        writer.held.append(line)
        if self._is_shown_at_once(rank):
            released, writer.held = writer.held, []
        else:
            released = self._first_of_its_kind(writer)
        if writer.traceback.is_complete:
            self._shown.add(_kind_of(writer.traceback))
            writer.traceback = None
        return released

    def _is_shown_at_once(self, rank: int | None) -> bool:
        return rank == 0 or not self._hides

    def _first_of_its_kind(self, writer: _Writer) -> list[LogLine]:
        """A traceback of another rank once it is complete; of one that is known already, its last line."""
        if writer.traceback is None or not writer.traceback.is_complete:
            return []
        held, writer.held = writer.held, []
        return held[-1:] if _kind_of(writer.traceback) in self._shown else held

    def _released(self, writer: _Writer) -> list[LogLine]:
        traceback = writer.traceback
        if traceback is None or not traceback.is_complete:
            return []
        held, writer.held, writer.traceback = writer.held, [], None
        if not traceback.kind.endswith(_TORCHRUNS_EXCEPTIONS):
            return held
        writer.edges, writer.folding = 0, _MOST_FOLDED
        return []

    def _is_folded(self, writer: _Writer, text: str) -> bool:
        """Whether the line is torchrun's report of a failure: between two edges after its exception."""
        if writer.folding:
            writer.folding -= 1
            edge = text.startswith(_EDGE)
            if edge or writer.edges:
                writer.edges += edge
                writer.folding = 0 if writer.edges == 2 else writer.folding
                return True
            writer.folding = 0
        return any(words in text for words in _TORCHRUNS)

    def _is_chosen(self, line: LogLine, rank: int | None, text: str) -> bool:
        if self._is_shown_at_once(rank) or text.startswith(_OF_SLIPWAY):
            return True
        if rank is None and line.host == host_name(1):
            return True
        words = _ERRORS if rank is not None else (*_ERRORS, *_WARNINGS)
        return any(word in text for word in words) or text.rstrip().endswith(("Error", "Exception"))

    def _hide(self) -> list[LogLine]:
        if not self._told:
            self._told = True
            self._tell()
        return []


def _kind_of(traceback: Traceback) -> tuple[str, ...]:
    """What is alike in the tracebacks of ranks that fail of one cause, on whichever host."""
    return (traceback.kind, *(frame.place for frame in traceback.frames))


# How far a training is: step, loss and speed, picked from the lines that it prints.


_LONGEST_CURVE = 1024
_BLOCKS = "▁▂▃▄▅▆▇█"


@frozen
class TrainingProgress:
    """The newest value of each metric by its name, and the values so far of the one that is drawn.

    `remaining` is how many seconds the training needs to its end, None where its steps do not tell.
    """

    values: Mapping[str, float]
    drawn: str | None = None
    curve: Sequence[float] = ()
    remaining: float | None = None

    @property
    def step(self) -> float | None:
        """The newest step, or epoch where no steps are printed."""
        return self.values.get("step", self.values.get("epoch"))


class RankMetrics:
    """The metrics that one rank prints, picked from all lines in their order.

    `definitions` are the job's own, name to regular expression as the service takes them; step, loss and
    speed are found by built-in ones where the job has none for them. All ranks may print the same metric:
    the values are those of the one rank or host that printed one first, or of rank 0 as soon as it does.
    `loss` is the name of the loss, `goals` how many steps and epochs there are as the lines say it;
    `taken_over` is how often another rank was read from then on.
    """

    def __init__(
        self, definitions: Mapping[str, str] | None = None, processes_per_host: int | None = None
    ) -> None:
        self.taken_over = 0
        self._processes_per_host = processes_per_host
        self._metrics = PrintedMetrics(definitions)
        self._speaker: tuple[str, int | None] | None = None
        self.loss = self._metrics.loss
        self.goals = self._metrics.goals

    def read_line(self, line: LogLine) -> dict[str, float]:
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
    """How far a training is, by the metrics of one rank; fed with all lines in their order.

    `goals` are how many steps and epochs it was told to train for.
    """

    def __init__(
        self,
        definitions: Mapping[str, str] | None = None,
        processes_per_host: int | None = None,
        goals: Mapping[str, float] | None = None,
    ) -> None:
        self._pace = PaceReader(goals or {})
        self._metrics = RankMetrics(definitions, processes_per_host)
        self._values: dict[str, float] = {}
        self._curve: list[float] = []
        self._stride = 1
        self._skipped = 0

    def read(self, lines: Sequence[LogLine]) -> TrainingProgress | None:
        """The progress after these lines; None where they hold no metric of the rank that is read."""
        found = False
        for line in lines:
            values = self._metrics.read_line(line)
            if values:
                found = True
                self._values.update(values)
                self._pace.read(line.time, values, self._metrics.goals)
            loss = values.get(self._metrics.loss)
            if loss is not None and math.isfinite(loss):
                self._draw(loss)
        if not found:
            return None
        remaining = self._pace.remaining(lines[-1].time)
        return TrainingProgress(dict(self._values), self._metrics.loss, tuple(self._curve), remaining)

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


# Whether a job stands still, and what that usually means: a state machine that is given the time.


_LONGEST_GAP = 60.0
"""Between two looks nobody looked: a laptop may have slept, so no more than this of it counts."""

_LINES_WITHOUT_STEPS = 3
"""Lines that keep coming may be a validation; steps are missed after so many times the limit."""

_SLOWEST_STEPS = 5
"""A job is quiet when it is so many times longer than the longest time between two of its steps."""

_SAVING = re.compile(
    r"(?i)\bsav(?:e|ing|ed)\b.{0,40}\b(?:checkpoint|state_dict|model)"
    r"|\bcheckpoint(?:(?!checkpoint|\bsav)\S)*+.{0,20}\bsav(?:e|ing)\b"
)


@frozen
class Situation:
    """What a job was doing when it fell silent: after how many seconds that is strange, and what is likely
    then, the likeliest first."""

    doing: str
    limit: float
    likely: tuple[FailureMode, ...]


WAITING = Situation("waits for its hosts", 1800.0, (capacity.NO_CAPACITY, capacity.QUOTA_TOO_SMALL))
DOWNLOADING = Situation(
    "downloads its image and data",
    1800.0,
    (storage.LARGE_DATASET_IN_FILE_MODE, storage.BUCKET_UNUSABLE, images.IMAGE_UNAVAILABLE),
)
BEFORE_FIRST_STEP = Situation(
    "has shown no step yet",
    900.0,
    (nccl.INITIALISATION_STALLED, nccl.RENDEZVOUS_TIMED_OUT, network.NO_EGRESS_TO_ITSELF),
)
BETWEEN_STEPS = Situation(
    "shows no step any more",
    600.0,
    (nccl.COLLECTIVE_TIMED_OUT, data.UNEVEN_BATCHES, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK),
)
SAVING = Situation(
    "was saving a checkpoint",
    1200.0,
    (checkpoints.STATE_DICT_NOT_ON_EVERY_RANK, checkpoints.LARGE_UPLOAD_FAILS, nccl.COLLECTIVE_TIMED_OUT),
)
UPLOADING = Situation("uploads its results", 3600.0, (checkpoints.LARGE_UPLOAD_FAILS,))

_PHASES = {
    "Starting": WAITING,
    "Pending": WAITING,
    "LaunchingMLInstances": WAITING,
    "PreparingTrainingStack": WAITING,
    "Restarting": WAITING,
    "Downloading": DOWNLOADING,
    "DownloadingTrainingImage": DOWNLOADING,
    "Uploading": UPLOADING,
}
"""SecondaryStatus of the SageMaker API; Training is judged by its steps."""


@frozen
class Stall:
    """A job that has stood still for `seconds`, and what it was doing when it fell silent."""

    job_name: str
    seconds: float
    situation: Situation

    @property
    def message(self) -> str:
        """What the job was doing, for how long nothing has come, and the likeliest failure modes."""
        likely = "; ".join(f"{mode.code}, {mode.title}" for mode in self.situation.likely)
        return (
            f"{self.job_name} {self.situation.doing}, and nothing new for {duration_in_words(self.seconds)}. "
            f"Likely: {likely}."
        )

    @property
    def remedy(self) -> str:
        """The commands that show more."""
        return f"launch diagnose {self.job_name}   or   launch explain {self.situation.likely[0].code}"


@frozen
class Moving:
    """A job that stood still moves again."""

    job_name: str


class StallWatch:
    """Reports once when a job falls silent, and once when it moves again.

    Call `look` for every look at the job, also for those that brought no lines.
    """

    def __init__(self) -> None:
        self._time: float | None = None
        self._phase = ""
        self._since_line = 0.0
        self._since_step = 0.0
        self._steps = 0
        self._slowest = 0.0
        self._saving = False
        self._reported = False

    def look(
        self, time: float, status: JobStatus, lines: Sequence[LogLine], *, stepped: bool
    ) -> Stall | Moving | None:
        """Whether this look shows that the job stands still, or moves again; None where nothing has changed.

        `time` is in seconds of any steady clock, `lines` are those since the last look, and `stepped` says
        whether they reported progress.
        """
        gap = 0.0 if self._time is None else min(max(0.0, time - self._time), _LONGEST_GAP)
        self._time = time
        self._since_line += gap
        self._since_step += gap
        moved = self._note(status, lines, stepped)
        if moved and self._reported:
            self._reported = False
            return Moving(status.name)
        situation = self._situation(status)
        if self._reported or situation is None or not self._is_stalled(situation):
            return None
        self._reported = True
        return Stall(status.name, self._quiet, situation)

    @property
    def _quiet(self) -> float:
        return self._since_step if self._steps else self._since_line

    def _note(self, status: JobStatus, lines: Sequence[LogLine], stepped: bool) -> bool:
        """Take up what is new; returns whether the job has moved."""
        moved = stepped
        if status.phase != self._phase:
            self._phase, moved = status.phase, True
            self._since_line = self._since_step = 0.0
            if status.phase != "Training":
                self._steps = 0
        if lines:
            self._since_line = 0.0
            # A line is a move too, unless the steps have been missed while lines went on.
            moved = moved or not self._steps or self._since_step <= _LINES_WITHOUT_STEPS * self._limit
            self._saving = any(map(_reports_saving, lines[-50:]))
        if stepped:
            self._steps += 1
            if self._steps > 1:
                self._slowest = max(self._slowest, self._since_step)
            self._since_step = 0.0
        return moved

    @property
    def _limit(self) -> float:
        return max(BETWEEN_STEPS.limit, _SLOWEST_STEPS * self._slowest)

    def _situation(self, status: JobStatus) -> Situation | None:
        if status.state.is_final:
            return None
        if status.phase != "Training":
            return _PHASES.get(status.phase)
        if self._saving:
            return SAVING
        return BETWEEN_STEPS if self._steps else BEFORE_FIRST_STEP

    def _is_stalled(self, situation: Situation) -> bool:
        limit = max(situation.limit, self._limit) if self._steps else situation.limit
        if self._steps and self._since_step > _LINES_WITHOUT_STEPS * limit:
            return True
        return self._since_line > limit


def _reports_saving(line: LogLine) -> bool:
    return _SAVING.search(line.text, 0, LONGEST_LINE) is not None
