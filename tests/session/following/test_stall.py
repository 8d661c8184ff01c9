"""When a job counts as standing still, what is told then, and how often."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from launcher.backends.interface import JobState, JobStatus, LogLine
from launcher.session.following.stall import Moving, Stall, StallWatch


class Job:
    """A job looked at every half minute."""

    def __init__(self) -> None:
        self.watch = StallWatch()
        self.time = 0.0
        self.changes: list[Stall | Moving] = []

    def goes(
        self, minutes: float, phase: str = "Training", lines: Sequence[str] = (), stepped: bool = False
    ) -> None:
        for _ in range(int(minutes * 2)):
            self.time += 30
            self.look(phase, lines, stepped)

    def look(self, phase: str, lines: Sequence[str], stepped: bool) -> None:
        status = JobStatus("job", JobState.IN_PROGRESS, phase)
        printed = [LogLine(self.time, "algo-1", text) for text in lines]
        change = self.watch.look(self.time, status, printed, stepped=stepped)
        if change is not None:
            self.changes.append(change)

    @property
    def codes(self) -> list[str]:
        return [change.situation.likely[0].code for change in self.changes if isinstance(change, Stall)]


def test_silence_before_the_first_step_points_to_initialisation() -> None:
    job = Job()
    job.goes(60, "Starting", lines=["waiting"])
    job.goes(2, lines=["NCCL INFO"])
    job.goes(14)
    assert job.codes == []
    job.goes(2)
    assert job.codes == ["NCCL007"]
    stall = job.changes[0]
    assert isinstance(stall, Stall)
    assert "launch diagnose job" in stall.remedy
    assert "launch explain NCCL007" in stall.remedy


def test_silence_after_steps_points_to_a_collective() -> None:
    job = Job()
    job.goes(5, lines=["loss=1"], stepped=True)
    job.goes(11)
    assert job.codes == ["NCCL004"]


def test_silence_after_the_word_of_a_checkpoint_points_to_it() -> None:
    job = Job()
    job.goes(5, lines=["loss=1"], stepped=True)
    job.goes(0.5, lines=["saving checkpoint-7 ..."])
    job.goes(15)
    assert job.codes == []
    job.goes(10)
    assert job.codes == ["CKPT003"]


@pytest.mark.parametrize(("phase", "code"), [("Pending", "CAP001"), ("Downloading", "FSX006")])
def test_a_phase_that_takes_too_long_has_a_cause_of_its_own(phase: str, code: str) -> None:
    job = Job()
    job.goes(29, phase)
    assert job.codes == []
    job.goes(3, phase)
    assert job.codes == [code]


def test_it_is_told_once_and_taken_back_when_the_job_moves() -> None:
    job = Job()
    job.goes(5, lines=["loss=1"], stepped=True)
    job.goes(60)
    assert len(job.changes) == 1
    job.goes(1, lines=["loss=0.9"], stepped=True)
    job.goes(5)
    assert [type(change) for change in job.changes] == [Stall, Moving]


def test_slow_steps_are_no_stall() -> None:
    job = Job()
    for _ in range(4):
        job.goes(0.5, lines=["loss=1"], stepped=True)
        job.goes(9)
    job.goes(30)
    assert job.changes == []
    job.goes(30)
    assert job.codes == ["NCCL004"]


def test_lines_that_go_on_without_steps_are_missed_later() -> None:
    job = Job()
    job.goes(5, lines=["loss=1"], stepped=True)
    job.goes(29, lines=["heartbeat"])
    assert job.changes == []
    job.goes(3, lines=["heartbeat"])
    assert job.codes == ["NCCL004"]
    job.goes(10, lines=["heartbeat"])
    assert len(job.changes) == 1


def test_a_job_whose_lines_tell_no_steps_moves_with_its_lines() -> None:
    job = Job()
    job.goes(120, lines=["processing"])
    job.goes(20)
    job.goes(1, lines=["processing"])
    assert [type(change) for change in job.changes] == [Stall, Moving]


def test_a_night_in_which_nobody_looked_is_no_silence() -> None:
    job = Job()
    job.goes(5, lines=["loss=1"], stepped=True)
    job.time += 8 * 3600
    job.goes(5)
    assert job.changes == []


def test_a_job_that_has_ended_does_not_stall() -> None:
    watch = StallWatch()
    for minute in range(600):
        assert (
            watch.look(minute * 60, JobStatus("job", JobState.COMPLETED, "Completed"), (), stepped=False)
            is None
        )
