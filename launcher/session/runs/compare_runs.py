"""A pair of runs: in what they differ, how they run on AWS, one after another or beside each other, and what
both have printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from launcher.aws.clients import Clients
from launcher.backends.interface import Backend, BackendError, FoundJob, JobState, JobStatus
from launcher.experiments.run_comparison import (
    RunComparison,
    RunDifference,
    RunSide,
    cautions,
    compare,
    differences,
    samples_per_step,
)
from launcher.experiments.run_measures import Series, SeriesReader
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.planning.request_view import RequestView
from launcher.planning.show_plan import fields_of_job, fields_of_plan, job_uses_compiler, plan_uses_compiler
from launcher.planning.training_plan import TrainingPlan
from launcher.session.find_jobs import find_job
from launcher.session.runs.diagnose_job import Outcome, outcome_of, read_batches
from launcher.session.runs.follow_job import Follower, Interrupted, Monitor, Screen, pace_of
from launcher.session.runs.read_job_lines import RankMetrics
from launcher.text.log_lines import plain_name
from launcher.text.values import HIDDEN, credential_in

if TYPE_CHECKING:
    from launcher.session.launch_job import Submission


LABELS = ("A", "B")
"""What the two sides of a pair are called."""


@frozen
class StepFacts:
    """What a step of a run is: how many processes take part, with how many samples together.

    None is what is not known. `compiled` says that SageMaker Training Compiler is used.
    """

    world_size: int | None = None
    samples: int | None = None
    compiled: bool = False


@frozen
class PairFacts:
    """What is known of a pair before it runs: what its sides differ in, and what makes that mean less."""

    steps: tuple[StepFacts, StepFacts]
    differences: tuple[RunDifference, ...]
    cautions: tuple[str, ...]


@frozen
class RunRead:
    """A run of a pair as it is: its outcome, how it came to be, and the losses that it printed."""

    outcome: Outcome
    side: RunSide

    @property
    def name(self) -> str:
        """The job's name."""
        return self.outcome.status.name


@frozen
class PairResult:
    """What became of a pair: both runs, what they differ in, and what that did.

    `here` says that one of them ran on this machine.
    """

    runs: tuple[RunRead, RunRead]
    facts: PairFacts
    comparison: RunComparison
    here: bool = False

    @property
    def exit_code(self) -> int:
        """1 where a run failed or was stopped, or the second learns worse; else 0."""
        broken = any(run.outcome.diagnosis is not None for run in self.runs)
        return 1 if broken or self.comparison.loss.is_worse else 0


def facts_of_plans(first: TrainingPlan, second: TrainingPlan) -> PairFacts:
    """What two plans differ in. Raises Refusal for a tuning job, which is many runs."""
    for label, plan in zip(LABELS, (first, second), strict=True):
        if plan.operation != "CreateTrainingJob":
            raise Refusal(
                f"{label} is a tuning job, which is many runs; a pair compares two.",
                "Leave out `tuning`, and give each side the hyperparameters to compare.",
            )
    found = differences(fields_of_plan(first), fields_of_plan(second))
    return _facts(_planned(first), _planned(second), found)


def facts_of_jobs(first: FoundJob, second: FoundJob) -> PairFacts:
    """What two jobs that were submitted differ in.

    Values of the environment are not shown, nor what looks like a credential: they were put in place of
    variables before, and which of them are secret is not known any more. Where a place does not tell its
    jobs' requests, nothing is known.
    """
    try:
        a, b = (RequestView(job.backend.request_of(job.name)) for job in (first, second))
    except BackendError as error:
        why = f"What the jobs differ in is not known: {error.message}"
        return PairFacts((StepFacts(), StepFacts()), (), (why,))
    found = differences(fields_of_job(a), fields_of_job(b))
    facts = _facts(_submitted(a), _submitted(b), found)
    return replace(facts, differences=tuple(map(_hidden, facts.differences)))


def found_pair(first: str, second: str, clients: Clients, region: str | None) -> tuple[FoundJob, FoundJob]:
    """The two jobs of these names, wherever they ran. Raises as `find_job`, and Refusal for one job twice."""
    if first == second:
        raise Refusal(f"{first} cannot be compared with itself.", "Name two jobs.")
    return find_job(first, clients, region), find_job(second, clients, region)


def compare_results(
    facts: PairFacts, first: tuple[Backend, Outcome], second: tuple[Backend, Outcome], same_within: float
) -> PairResult:
    """What two runs show, by all that they have printed. Raises what reading logs raises."""
    runs = [
        RunRead(outcome, RunSide(label, series_of(backend, outcome.status), *_side(step)))
        for label, step, (backend, outcome) in zip(LABELS, facts.steps, (first, second), strict=True)
    ]
    here = first[0].runs_here or second[0].runs_here
    compared = compare(runs[0].side, runs[1].side, same_within, here=here)
    return PairResult((runs[0], runs[1]), facts, compared, here)


def diagnosed_run(job: FoundJob) -> tuple[Backend, Outcome]:
    """A job as it is, with its diagnosis where it failed."""
    return job.backend, outcome_of(job.backend, job.status)


def series_of(backend: Backend, status: JobStatus) -> Series:
    """The losses in all that a job has printed: those of the rank that is read, mostly rank 0."""
    metrics = RankMetrics(status.metrics, status.processes_per_host)
    reader, taken_over = SeriesReader(), 0
    for lines in read_batches(backend, status.name):
        for line in lines:
            values = metrics.read_line(line)
            if metrics.taken_over != taken_over:
                # Two ranks are two series.
                reader, taken_over = SeriesReader(), metrics.taken_over
            named = {plain_name(name): value for name, value in values.items() if "loss" not in name.lower()}
            if metrics.loss in values:
                named["loss"] = values[metrics.loss]
            if named:
                reader.read(line.time, named)
    return reader.series()


def is_going_on(run: RunRead) -> bool:
    """Whether a run had not ended when it was looked at."""
    return run.outcome.status.state in (JobState.IN_PROGRESS, JobState.STOPPING)


def _side(step: StepFacts) -> tuple[int | None, int | None, bool]:
    return step.world_size, step.samples, step.compiled


def _facts(first: StepFacts, second: StepFacts, found: Sequence[RunDifference]) -> PairFacts:
    said = cautions(found, (first.samples, second.samples))
    return PairFacts((first, second), tuple(found), tuple(said))


def _planned(plan: TrainingPlan) -> StepFacts:
    batch = (plan.job.get("data") or {}).get("batch_size")
    given = plan.job.get("hyperparameters") or {}
    samples = samples_per_step(batch, given, plan.world_size)
    return StepFacts(plan.world_size, samples, plan_uses_compiler(plan))


def _submitted(view: RequestView) -> StepFacts:
    hosts, processes = view.hosts, view.processes_per_host
    world = hosts * processes if hosts and processes else None
    samples = samples_per_step(None, view.hyperparameters, world)
    return StepFacts(world, samples, job_uses_compiler(view))


def _hidden(found: RunDifference) -> RunDifference:
    private = found.field.startswith("environment.")
    first, second = (
        HIDDEN if private or credential_in(value) else value for value in (found.first, found.second)
    )
    return replace(found, first=first, second=second)


# The runs of a pair on AWS: both submitted, and followed beside each other or one after the other.


@frozen
class PairedRun:
    """A side of a pair that is to run on AWS: what is submitted, how, and where it is shown."""

    label: str
    plan: TrainingPlan
    submission: Submission
    screen: Screen


class PairLeft(Exception):
    """The user left a pair alone with Ctrl-C; `left` are the runs that were started, and how to come back."""

    def __init__(self, left: Sequence[tuple[Backend, Interrupted]]) -> None:
        super().__init__()
        self.left = list(left)


def run_beside_each_other(runs: Sequence[PairedRun]) -> list[tuple[Backend, Outcome]]:
    """Submit both runs, once each, and follow them to their ends; how they ended, in their order.

    Raises PairLeft on Ctrl-C, which leaves them running; Refusal where one cannot be submitted, with what
    became of the other; and what following raises.
    """
    names = _started(runs)
    followed = [_FollowedRun(run, name) for run, name in zip(runs, names, strict=True)]
    try:
        going = list(followed)
        while going:
            waits = [(each, each.follower.advance()) for each in going]
            going = [each for each, wait in waits if wait is not None]
            # Each wait keeps the calls for one job within the account's quota; those for both add up.
            wait = sum(wait or 0.0 for _, wait in waits)
            if wait:
                going[0].pace.sleep(wait)
    except KeyboardInterrupt:
        raise PairLeft([(each.backend, each.left(names)) for each in followed]) from None
    return [each.outcome() for each in followed]


def run_one_after_another(runs: Sequence[PairedRun]) -> list[tuple[Backend, Outcome]]:
    """The same, the second submitted when the first has ended, however it did."""
    ended: list[tuple[Backend, Outcome]] = []
    for run in runs:
        try:
            ended += run_beside_each_other([run])
        except Refusal as refusal:
            raise _with_others(refusal, run, [outcome.status.name for _, outcome in ended]) from refusal
    return ended


class _FollowedRun:
    """A run that was started, and what reads along."""

    def __init__(self, run: PairedRun, name: str) -> None:
        self.name, self.backend = name, run.submission.backend
        self.pace = pace_of(self.backend)
        self._monitor = Monitor(run.screen)
        self.follower = Follower(self.backend, name, self._monitor, self.pace)

    def outcome(self) -> tuple[Backend, Outcome]:
        """How it ended."""
        if self.follower.seen is None:
            raise ValueError(f"{self.name} was never seen")
        seen, monitor = self.follower.seen, self._monitor
        return self.backend, outcome_of(self.backend, seen, monitor.furthest_step, monitor.warnings)

    def left(self, names: Sequence[str]) -> Interrupted:
        """That it was left alone."""
        how = f"Compare them with: launch pair {' '.join(names)}" if len(names) > 1 else ""
        return Interrupted(
            self.name, self.follower.seen, how or f"Come back with: launch logs {self.name} --follow"
        )


def _started(runs: Sequence[PairedRun]) -> list[str]:
    names: list[str] = []
    for run in runs:
        try:
            names.append(run.submission.start.once(run.plan).name)
        except Refusal as refusal:
            raise _with_others(refusal, run, names) from refusal
    return names


def _with_others(refusal: Refusal, run: PairedRun, names: Sequence[str]) -> Refusal:
    """The refusal, with what was submitted before it and costs money."""
    if not names:
        return refusal
    others = " and ".join(names)
    return type(refusal)(
        f"{run.label} was not run to its end: {refusal.message} {others}, submitted before it, stays.",
        f"{refusal.remedy} To stop what still runs: launch stop {names[0]}",
    )
