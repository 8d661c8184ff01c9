"""Launchers killed right after their job was created, and the same command again: still one job."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tools.attack.kills import WAYS, Campaign, Moment, Outcome, Trials, Way, has_named, take_up
from tools.attack.processes import served_account

CREATION = {"launch --queue": "SubmitServiceJob"}
FOLLOWED_ELSEWHERE = "launch"
"""The way that tests/session/submission/test_killed_launchers.py kills at each of its steps."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.name != FOLLOWED_ELSEWHERE], ids=lambda way: way.name
)
def test_a_launcher_that_is_killed_once_its_job_is_there_makes_no_second_one(
    way: Way, tmp_path: Path
) -> None:
    with served_account(tmp_path) as (server, attacked):
        trials = Trials(way, server, attacked)
        job, folder = trials.prepare("trial")
        gate = server.hold(CREATION.get(way.name, "CreateTrainingJob"), answered=True)
        killed = trials.start(job, folder, 0)
        assert gate.wait(), server.calls
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
        assert len(trials.jobs(job)) == 1
        gate.release()
        again = trials.start(job, folder, way.homes - 1)
        said, _ = again.communicate(timeout=120)
        assert again.returncode == 0, said
        assert len(trials.jobs(job)) == 1


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome(None, ["a"], ["a"], None, ""), (0, 0, 0, 0)),
        (Outcome(Moment(1.0), [], ["a"], 0, ""), (1, 0, 0, 0)),
        (Outcome(Moment(1.0), ["a"], ["a"], 0, ""), (1, 1, 0, 0)),
        (Outcome(Moment(1.0), ["a"], ["a", "b"], 0, ""), (1, 0, 1, 0)),
        (Outcome(Moment(1.0), [], [], 0, ""), (1, 0, 0, 1)),
        (Outcome(Moment(1.0), ["a"], ["a"], 3, "error"), (1, 0, 0, 1)),
    ],
)
def test_what_came_of_a_kill_is_counted(outcome: Outcome, counts: tuple[int, int, int, int]) -> None:
    """Killed, adopted, doubled, and what else."""
    done = Campaign(WAYS[0])
    take_up(done, outcome)
    assert (done.killed, done.adopted, len(done.doubled), len(done.other)) == counts


def test_a_job_is_named_once_it_is_said_to_be_submitted() -> None:
    assert has_named("resume a as a-1\nsubmitted a-1\n", ["a-1"])
    assert not has_named("resume a as a-1\ncost: 50.50 USD an hour\n", ["a-1"])
    assert not has_named("", [])
