"""Following a job: every line once, every state, until nothing more can come."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.planning.training_plan import TrainingPlan
from launcher.session.follow import Follower


class ScriptedBackend:
    """Plays a list of (state, lines printed by then)."""

    name = "scripted"

    def __init__(self, *moments: tuple[JobState, list[str]]) -> None:
        self.moments = list(moments)
        self.printed: list[str] = []

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
        return LogBatch(lines, {"all": str(len(self.printed))})


class Recorder:
    def __init__(self) -> None:
        self.states: list[JobState] = []
        self.texts: list[str] = []

    def status(self, status: JobStatus) -> None:
        self.states.append(status.state)

    def lines(self, lines: Sequence[LogLine]) -> None:
        self.texts += [line.text for line in lines]


def test_every_line_is_shown_once_and_the_last_ones_too() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, []),
        (JobState.IN_PROGRESS, ["a", "b"]),
        (JobState.FAILED, ["the traceback"]),
        (JobState.FAILED, []),
    )
    shown = Recorder()
    final = Follower(backend, "job", shown).until_end(pause=lambda: None)
    assert final.state is JobState.FAILED
    assert shown.texts == ["a", "b", "the traceback"]


def test_lines_that_arrive_after_the_end_are_waited_for() -> None:
    backend = ScriptedBackend(
        (JobState.COMPLETED, []), (JobState.COMPLETED, ["late"]), (JobState.COMPLETED, [])
    )
    shown = Recorder()
    Follower(backend, "job", shown).until_end(pause=lambda: None, end_reads=2)
    assert shown.texts == ["late"]


def test_it_pauses_only_when_there_was_nothing_to_show() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, ["a"]), (JobState.IN_PROGRESS, []), (JobState.COMPLETED, [])
    )
    pauses: list[None] = []
    Follower(backend, "job", Recorder()).until_end(pause=lambda: pauses.append(None))
    assert len(pauses) == 1


def test_after_an_interruption_it_goes_on_where_it_was() -> None:
    backend = ScriptedBackend(
        (JobState.IN_PROGRESS, ["a"]), (JobState.IN_PROGRESS, []), (JobState.STOPPED, ["b"])
    )
    shown = Recorder()
    follower = Follower(backend, "job", shown)

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        follower.until_end(pause=interrupt)
    follower.until_end(pause=lambda: None)
    assert shown.texts == ["a", "b"]
