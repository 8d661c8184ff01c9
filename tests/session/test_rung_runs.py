"""A rung ends as soon as it has shown that it trains, and what came of it is told from how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.diagnosis.model import Diagnosis, RootCause, Verdict
from launcher.experiments.ladder.results import Result
from launcher.experiments.ladder.rungs import Rung, Where
from launcher.failure_modes import checkpoints, distribution, training_script
from launcher.failure_modes.model import Retry, Stage
from launcher.planning.cost import CostEstimate
from launcher.session.following.progress import TrainingProgress
from launcher.session.ladder import ReadyRung
from launcher.session.outcome import Outcome
from launcher.session.rung_runs import Bound, RungWatch, bound_of, climbed_of

RUNG = Rung("2-hosts", Where.AWS, 2, 8, instance_type="ml.p4d.24xlarge")


class Quiet:
    """A screen that shows nothing but counts what comes through."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def status(self, status: JobStatus) -> None:
        self.seen.append("status")

    def lines(self, lines: Sequence[LogLine]) -> None:
        self.seen.append("lines")

    def trouble(self, text: str | None) -> None:
        self.seen.append("trouble")

    def progress(self, progress: TrainingProgress) -> None:
        self.seen.append("progress")

    def stall(self, change: Any) -> None:
        self.seen.append("stall")


class Watched:
    """A watch with a clock of its own, and the stops that it asked for."""

    def __init__(self, reports: int | None = None, seconds: float = 600) -> None:
        self.now = 0.0
        self.stops: list[tuple[str, ...]] = []
        self.screen = Quiet()
        self.watch = RungWatch(
            self.screen, lambda *who: self.stops.append(who), Bound(reports, seconds), lambda: self.now
        )

    def at(self, now: float, *, report: bool = False, phase: str = "Training") -> None:
        self.now = now
        state = JobState.COMPLETED if phase == "Completed" else JobState.IN_PROGRESS
        self.watch.status(JobStatus("digits-1", state, phase))
        if report:
            self.watch.progress(TrainingProgress({"step": now}))


def ready(*, told: bool = False) -> ReadyRung:
    cost = CostEstimate(60.0, 25.0, None, "us-west-2")  # type: ignore[arg-type]
    return ReadyRung(RUNG, (), None, None, told, cost)  # type: ignore[arg-type]


def ended(state: JobState, *, verdict: Verdict | None = None, mode: Any = None, **more: Any) -> Outcome:
    status = JobStatus("digits-1", state, state.value, seconds=120.0)
    if verdict is None:
        return Outcome(status, **more)
    cause = RootCause(mode.finding(Stage.LOG, "x"), 1, "algo-1", "x", ()) if mode else None
    return Outcome(status, Diagnosis(verdict, cause, (), (), Retry.NEVER), **more)


def test_a_script_that_cannot_be_told_is_stopped_after_its_reports() -> None:
    watched = Watched(reports=2)
    watched.at(1, report=True)
    assert watched.stops == []
    watched.at(2, report=True)
    watched.at(3, report=True)
    [(name, who)] = watched.stops
    assert name == "digits-1"
    assert who.startswith("launch ladder after 2 reports of progress")


def test_one_that_was_told_ends_by_itself() -> None:
    assert bound_of(ready(told=True), 5, 600) == Bound(None, 600)
    assert bound_of(ready(), 5, 600) == Bound(5, 600)


def test_time_counts_from_the_scripts_start() -> None:
    watched = Watched(seconds=600)
    watched.at(0, phase="Starting")
    watched.at(5000, phase="Downloading")
    watched.at(5001)
    watched.at(5500, report=True)
    watched.at(5590, report=True)
    assert watched.stops == []
    watched.at(5601)
    assert len(watched.stops) == 1
    assert watched.watch.stood_still is None
    assert (
        climbed_of(ready(), ended(JobState.STOPPED, verdict=Verdict.STOPPED), watched.watch).result == "held"
    )


@pytest.mark.parametrize(
    ("reports", "said"),
    [([], "reported nothing for 10m00s"), ([1, 10, 20], "stood still for 9m40s")],
)
def test_a_run_that_stands_still_at_its_limit_has_not_held(reports: list[int], said: str) -> None:
    watched = Watched()
    watched.at(0)
    for second in reports:
        watched.at(second, report=True)
    watched.at(600)
    climbed = climbed_of(ready(), ended(JobState.STOPPED, verdict=Verdict.STOPPED), watched.watch)
    assert (climbed.result, climbed.said) == (Result.UNDECIDED, said)


def test_slow_steps_are_no_standstill() -> None:
    watched = Watched()
    watched.at(0)
    for second in (10, 160, 310):
        watched.at(second, report=True)
    watched.at(600)
    assert watched.watch.ended_by is not None
    assert watched.watch.stood_still is None


def test_a_job_that_has_ended_is_not_stopped() -> None:
    watched = Watched(reports=1)
    watched.at(0)
    watched.at(900, report=True, phase="Completed")
    assert watched.stops == []


def test_everything_still_reaches_the_screen() -> None:
    watched = Watched()
    watched.at(0, report=True)
    watched.watch.lines([])
    watched.watch.trouble(None)
    watched.watch.stall(None)  # type: ignore[arg-type]
    assert watched.screen.seen == ["status", "progress", "lines", "trouble", "stall"]


@pytest.mark.parametrize(
    ("outcome", "result", "code"),
    [
        (ended(JobState.COMPLETED, warnings=()), Result.HELD, None),
        (
            ended(JobState.FAILED, verdict=Verdict.FAILED, mode=training_script.SCRIPT_RAISED),
            Result.BROKE,
            "CODE001",
        ),
        (ended(JobState.FAILED, verdict=Verdict.UNKNOWN), Result.BROKE, None),
        (
            ended(JobState.STOPPED, verdict=Verdict.STOPPED, mode=training_script.SCRIPT_RAISED),
            Result.UNDECIDED,
            "CODE001",
        ),
        (
            ended(JobState.COMPLETED, warnings=(distribution.RANKS_NEVER_MET.finding(Stage.LOG, "alone"),)),
            Result.BROKE,
            "DIST008",
        ),
        (
            ended(JobState.COMPLETED, warnings=(checkpoints.PATH_NOT_KEPT.finding(Stage.LOG, "lost"),)),
            Result.HELD,
            None,
        ),
    ],
)
def test_how_the_job_ended_says_what_came_of_the_rung(
    outcome: Outcome, result: Result, code: str | None
) -> None:
    climbed = climbed_of(ready(), outcome, Watched().watch)
    assert climbed.result is result
    assert (climbed.finding.code if climbed.finding else None) == code
    assert climbed.usd == pytest.approx(2.0)


def test_a_failure_counts_also_where_the_ladder_stopped_the_job() -> None:
    watched = Watched(reports=1)
    watched.at(1, report=True)
    outcome = ended(JobState.STOPPED, verdict=Verdict.FAILED, mode=training_script.SCRIPT_RAISED)
    assert climbed_of(ready(), outcome, watched.watch).result is Result.BROKE
