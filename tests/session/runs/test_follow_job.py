"""Following a job: every line once, every state, until nothing more can come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.planning.training_plan import TrainingPlan
from launcher.session.runs.follow_job import Follower, Pace


class ScriptedBackend:
    """Plays a list of (state, lines printed by then)."""

    name = "scripted"

    def __init__(self, *moments: tuple[JobState, list[str]]) -> None:
        self.moments = list(moments)
        self.printed: list[str] = []
        self.more: list[bool] = []

    def submit(self, plan: TrainingPlan) -> str:
        raise AssertionError("follow submits nothing")

    def stop(self, job_name: str) -> None:
        raise AssertionError("follow stops nothing")

    def describe(self, job_name: str) -> JobStatus:
        state, lines = self.moments.pop(0) if self.moments else (JobState.COMPLETED, [])
        self.printed += lines
        return JobStatus(job_name, state, str(state))

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        start = int(cursor.get("all", "0"))
        lines = [LogLine(0.0, "algo-1", text) for text in self.printed[start:]]
        return LogBatch(lines, {"all": str(len(self.printed))}, more=bool(self.more and self.more.pop(0)))


class Recorder:
    def __init__(self) -> None:
        self.states: list[JobState] = []
        self.texts: list[str] = []

    def status(self, status: JobStatus) -> None:
        self.states.append(status.state)

    def lines(self, lines: Sequence[LogLine]) -> None:
        self.texts += [line.text for line in lines]

    def trouble(self, text: str | None) -> None:
        raise AssertionError(text)


def pace(pauses: list[float] | None = None, end_reads: int = 1) -> Pace:
    return Pace(end_reads=end_reads, sleep=(pauses if pauses is not None else []).append)


def test_every_line_is_shown_once_and_the_last_ones_too() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, []),
        (JobState.IN_PROGRESS, ["a", "b"]),
        (JobState.FAILED, ["the traceback"]),
        (JobState.FAILED, []),
    )
    shown = Recorder()
    final = Follower(backend, "job", shown, pace()).until_end()
    assert final.state is JobState.FAILED
    assert shown.texts == ["a", "b", "the traceback"]


def test_lines_that_arrive_after_the_end_are_waited_for() -> None:
    backend = ScriptedBackend(*((JobState.COMPLETED, lines) for lines in ([], ["late"], [])))
    shown = Recorder()
    Follower(backend, "job", shown, pace(end_reads=2)).until_end()
    assert shown.texts == ["late"]


def test_it_pauses_unless_more_lines_wait() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, ["a"]), (JobState.IN_PROGRESS, ["b"]), (JobState.COMPLETED, [])
    )
    backend.more = [True, False]
    pauses: list[float] = []
    Follower(backend, "job", Recorder(), pace(pauses)).until_end()
    assert pauses == [5.0]


def test_a_large_job_is_looked_at_less_often() -> None:
    assert Pace().between_looks(hosts=2) == 5.0
    assert Pace().between_looks(hosts=64) == pytest.approx(12.8)


def test_after_an_interruption_it_goes_on_where_it_was() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, ["a"]), (JobState.IN_PROGRESS, []), (JobState.STOPPED, ["b"])
    )
    shown = Recorder()
    presses = [KeyboardInterrupt()]

    def press(seconds: float) -> None:
        if presses:
            raise presses.pop()

    follower = Follower(backend, "job", shown, Pace(end_reads=1, sleep=press))
    with pytest.raises(KeyboardInterrupt):
        follower.until_end()
    assert follower.seen is not None
    follower.until_end()
    assert shown.texts == ["a", "b"]
