"""Two runs of a pair: which they are, what they differ in, and what both have printed in the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.aws.clients import Clients
from launcher.backends.interface import Backend, BackendError, Cursor, JobState, JobStatus
from launcher.experiments.pair.comparison import RunComparison, RunSide, compare
from launcher.experiments.pair.differences import RunDifference, cautions, differences, samples_per_step
from launcher.experiments.pair.series import Series, SeriesReader
from launcher.failure_modes.refusal import Refusal
from launcher.planning.request_view import RequestView
from launcher.planning.run_facts import (
    planned_fields,
    planned_with_compiler,
    submitted_fields,
    submitted_with_compiler,
)
from launcher.planning.training_plan import TrainingPlan
from launcher.session.following.progress import RankMetrics
from launcher.session.jobs import FoundJob, find_job
from launcher.session.outcome import Outcome, outcome_of
from launcher.text.printed_metrics import plain_name
from launcher.text.secrets import HIDDEN, credential_in

LABELS = ("A", "B")
"""What the two sides of a pair are called."""


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What a step of a run is: how many processes take part, with how many samples together.

    None is what is not known. `compiled` says that SageMaker Training Compiler is used.
    """

    world_size: int | None = None
    samples: int | None = None
    compiled: bool = False


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What is known of a pair before it runs: what its sides differ in, and what makes that mean less."""

    steps: tuple[StepFacts, StepFacts]
    differences: tuple[RunDifference, ...]
    cautions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunRead:
    """A run of a pair as it is: its outcome, how it came to be, and the losses that it printed."""

    outcome: Outcome
    side: RunSide

    @property
    def name(self) -> str:
        """The job's name."""
        return self.outcome.status.name


@dataclass(frozen=True, slots=True)
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
    found = differences(planned_fields(first), planned_fields(second))
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
    found = differences(submitted_fields(a), submitted_fields(b))
    facts = _facts(_submitted(a), _submitted(b), found)
    return replace(facts, differences=tuple(map(_hidden, facts.differences)))


def found_pair(first: str, second: str, clients: Clients, region: str | None) -> tuple[FoundJob, FoundJob]:
    """The two jobs of these names, wherever they ran. Raises as `find_job`, and Refusal for one job twice."""
    if first == second:
        raise Refusal(f"{first} cannot be compared with itself.", "Name two jobs.")
    return find_job(first, clients, region), find_job(second, clients, region)


def result_of(
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


def seen(job: FoundJob) -> tuple[Backend, Outcome]:
    """A job as it is, with its diagnosis where it failed."""
    return job.backend, outcome_of(job.backend, job.status)


def series_of(backend: Backend, status: JobStatus) -> Series:
    """The losses in all that a job has printed: those of the rank that is read, mostly rank 0."""
    metrics = RankMetrics(status.metrics, status.processes_per_host)
    reader, taken_over = SeriesReader(), 0
    cursor: Cursor = {}
    while (batch := backend.read_logs(status.name, cursor)).lines:
        cursor = batch.cursor
        for line in batch.lines:
            values = metrics.of(line)
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
    return StepFacts(plan.world_size, samples, planned_with_compiler(plan))


def _submitted(view: RequestView) -> StepFacts:
    hosts, processes = view.hosts, view.processes_per_host
    world = hosts * processes if hosts and processes else None
    samples = samples_per_step(None, view.hyperparameters, world)
    return StepFacts(world, samples, submitted_with_compiler(view))


def _hidden(found: RunDifference) -> RunDifference:
    private = found.field.startswith("environment.")
    first, second = (
        HIDDEN if private or credential_in(value) else value for value in (found.first, found.second)
    )
    return replace(found, first=first, second=second)
