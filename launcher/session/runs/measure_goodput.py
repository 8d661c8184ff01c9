"""What the billed time of jobs went to: useful work, the way to it, stalls, and what was lost to which cause.

An attempt's work is useful as far as somebody goes on from it: to its end where it completed or was stopped
with its checkpoints kept, and up to the step at which the next attempt went on where it failed. What the
lines of a job do not show is called unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from launcher.backends.interface import Backend, JobState, JobStatus, JobSummary, LogLine
from launcher.cluster.names import CLUSTER_TAG
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.frozen import frozen
from launcher.planning.job_cost import spent_usd
from launcher.planning.next_attempt import FIRST_TAG, NUMBER_TAG
from launcher.planning.request_view import RequestView
from launcher.session.runs.diagnose_job import diagnosis_of, read_batches
from launcher.session.runs.read_job_lines import RankMetrics

PARTS: Final = ("useful", "download", "gate", "start", "stall", "again", "lost", "unknown")
"""What a billed second may have gone to: training that counts, the download of image and data, the health
gate, the way to the first step, standing still, steps that a later attempt made again, a failure that nobody
went on from, and what nothing shows."""

TEAM_TAG: Final = "team"


@frozen
class AttemptTimes:
    """What is known of the time of one job; all times are seconds, those of moments since the epoch.

    `first` names the first attempt of its run, `number` which attempt it is. `billed` is what each of its
    `hosts` is billed for. `steps` are the moments at which it printed a step further than all before, with
    the step. `cause` is the code of what ended it, None where nothing did or that is not known.
    """

    name: str
    first: str
    number: int
    state: JobState
    hosts: int
    billed: float
    download: float
    gate: float
    trained_from: float | None
    ended: float | None
    steps: Sequence[tuple[float, float]]
    keeps_checkpoints: bool
    cause: str | None
    usd: float | None
    groups: Mapping[str, str]


@frozen
class Goodput:
    """The billed host seconds of some jobs by what they went to (`PARTS`), and those lost by their causes."""

    jobs: int
    seconds: Mapping[str, float]
    lost: Mapping[str, float]
    usd: float | None

    @property
    def total(self) -> float:
        """All host seconds that were billed."""
        return sum(self.seconds.values())

    def share(self, part: str) -> float:
        """A part of all that was billed, from 0 to 1."""
        return self.seconds.get(part, 0.0) / self.total if self.total else 0.0

    def to_json(self) -> dict[str, Any]:
        """What `launch list --goodput --output json` says of some jobs; times are host seconds."""
        return {
            "jobs": self.jobs,
            "host_seconds": round(self.total, 1),
            "usd": None if self.usd is None else round(self.usd, 2),
            "seconds": {part: round(self.seconds.get(part, 0.0), 1) for part in PARTS},
            "lost_to": {code: round(seconds, 1) for code, seconds in sorted(self.lost.items())},
        }


def measure_goodput(attempts: Sequence[AttemptTimes]) -> Goodput:
    """What the billed time of these attempts went to; those of one run are judged together."""
    runs: dict[str, list[AttemptTimes]] = {}
    for attempt in attempts:
        runs.setdefault(attempt.first, []).append(attempt)
    seconds, lost = dict.fromkeys(PARTS, 0.0), defaultdict[str, float](float)
    for run in runs.values():
        run.sort(key=lambda each: each.number)
        for attempt, later in zip(run, [*run[1:], None], strict=True):
            parts = _parts_of(attempt, later)
            for part, share in parts.items():
                seconds[part] += share * attempt.hosts
            lost_here = (parts["lost"] + parts["again"] + parts["stall"]) * attempt.hosts
            if lost_here and attempt.state is JobState.FAILED:
                lost[attempt.cause or "unknown"] += lost_here
    prices = [each.usd for each in attempts]
    usd = None if None in prices else sum(each or 0.0 for each in prices)
    return Goodput(len(attempts), seconds, lost, usd)


def split_billed_time(attempt: AttemptTimes) -> dict[str, float]:
    """What the time of one host went to in one attempt, as far as it tells itself, in seconds (`PARTS`)."""
    return _parts_of(attempt, None)


def by_group(attempts: Sequence[AttemptTimes], group: str) -> dict[str, Goodput]:
    """The same for each team, instance type or cluster, by what the jobs' groups say; most seconds first."""
    members: dict[str, list[AttemptTimes]] = {}
    for attempt in attempts:
        members.setdefault(attempt.groups.get(group, "none"), []).append(attempt)
    found = {name: measure_goodput(each) for name, each in members.items()}
    return dict(sorted(found.items(), key=lambda each: -each[1].total))


def _parts_of(attempt: AttemptTimes, later: AttemptTimes | None) -> dict[str, float]:
    """The billed seconds of one host by what they went to; together they are all of them."""
    parts = dict.fromkeys(PARTS, 0.0)
    parts["download"] = min(attempt.download, attempt.billed)
    left = attempt.billed - parts["download"]
    parts["gate"] = min(attempt.gate, left)
    left -= parts["gate"]
    if not attempt.steps or attempt.trained_from is None or attempt.ended is None:
        parts["lost" if attempt.state is JobState.FAILED else "unknown"] = left
        return parts
    first, last = attempt.steps[0][0], attempt.steps[-1][0]
    parts["start"] = min(max(0.0, first - attempt.trained_from - attempt.gate), left)
    left -= parts["start"]
    keeps_all = attempt.state is JobState.COMPLETED or (
        attempt.state is JobState.STOPPED and attempt.keeps_checkpoints
    )
    if not keeps_all:
        parts["stall"] = min(max(0.0, attempt.ended - last), left)
        left -= parts["stall"]
        kept = min(_kept_seconds(attempt, later), left)
        parts["useful"] = kept
        parts["again" if later is not None else "lost"] = left - kept
    else:
        parts["useful"] = left
    return parts


def _kept_seconds(attempt: AttemptTimes, later: AttemptTimes | None) -> float:
    """How long an attempt worked up to the step from which the next one went on."""
    if later is None or not later.steps:
        return 0.0
    began, resumed = attempt.steps[0], later.steps[0][1]
    reached = [time for time, step in attempt.steps if step < resumed]
    return max(reached) - began[0] if reached and resumed > began[1] else 0.0


# How it is read, from a backend.


_GATE = re.compile(r"^slipway: gate: .{0,40} in (\d{1,6}(?:\.\d+)?) s\b")
_DOWNLOADS = ("Downloading", "DownloadingTrainingImage")
_MOST_STEPS = 4096


def read_attempts(
    backend: Backend, jobs: Iterable[JobSummary], tell: Callable[[str], None]
) -> Iterator[AttemptTimes]:
    """The times of the jobs that have ended, read one after another; one that cannot be read is told."""
    for job in jobs:
        if not job.state.is_final:
            continue
        try:
            found = _read_attempt(backend, job.name)
        except Refusal as refusal:
            tell(f"{job.name} is not counted: {refusal.message}")
            continue
        if found is not None:
            yield found


def _read_attempt(backend: Backend, name: str) -> AttemptTimes | None:
    status = backend.describe(name)
    if not status.billable_seconds:
        return None  # It never had hosts.
    lines = LineTimes(status)
    cause = None
    if status.state is JobState.COMPLETED:
        for batch in read_batches(backend, name):
            lines.read(batch)
    else:
        root = diagnosis_of(backend, status, seen=lines.read).root_cause
        cause = root.finding.code if root else None
    return times_of(status, lines, cause, _tags_of(backend, name))


def times_of(
    status: JobStatus, lines: LineTimes, cause: str | None, tags: Mapping[str, str]
) -> AttemptTimes | None:
    """The times of a job that has ended, by its status and its lines; None of one that never had hosts."""
    if not status.billable_seconds or status.request is None:
        return None
    name, phases = status.name, status.transitions
    training = [each for each in phases if each.phase == "Training"]
    return AttemptTimes(
        name,
        tags.get(FIRST_TAG, name),
        int(number) if (number := tags.get(NUMBER_TAG, "1")).isdecimal() else 1,
        status.state,
        status.hosts or 1,
        status.billable_seconds,
        sum((each.ended or each.started) - each.started for each in phases if each.phase in _DOWNLOADS),
        lines.gate,
        min((each.started for each in training), default=None),
        max((each.ended for each in training if each.ended is not None), default=None),
        lines.steps,
        status.checkpoints is not None,
        cause,
        spent_usd(status.request, status.request.region, status.billable_seconds),
        _groups_of(status.request, tags),
    )


def _tags_of(backend: Backend, name: str) -> dict[str, str]:
    try:
        return RequestView(backend.request_of(name)).tags
    except AwsRefusal:
        return {}  # Whoever may not list tags sees each attempt as a run of its own.


def _groups_of(request: RequestView, tags: Mapping[str, str]) -> dict[str, str]:
    groups = {"team": tags.get(TEAM_TAG), "cluster": tags.get(CLUSTER_TAG), "type": request.instance_type}
    return {name: str(value) for name, value in groups.items() if value}


class LineTimes:
    """When a job passed its gate and made its steps, by what it printed."""

    def __init__(self, status: JobStatus) -> None:
        self.gate = 0.0
        self.steps: list[tuple[float, float]] = []
        self._metrics = RankMetrics(status.metrics, status.processes_per_host)

    def read(self, lines: Sequence[LogLine]) -> None:
        """Take up lines in their order."""
        for line in lines:
            if line.text.startswith("slipway: gate") and (passed := _GATE.match(line.text)):
                self.gate = max(self.gate, float(passed[1]))
                continue
            values = self._metrics.read_line(line)
            step = values.get("step", values.get("epoch"))
            if step is None or (self.steps and step <= self.steps[-1][1]):
                continue
            self.steps.append((line.time, step))
            if len(self.steps) > _MOST_STEPS:
                self.steps = [self.steps[0], *self.steps[1:-1:2], self.steps[-1]]
