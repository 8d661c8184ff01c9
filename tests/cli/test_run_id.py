"""`--run-id`: the same launch twice, as its user sees it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import RunLaunch, WriteJob
from tests.cli.test_launch_queue import queue
from tests.emulator.account import EmulatedAccount
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript

__all__ = ["queue"]


def test_a_second_launch_of_the_run_says_so_and_follows_the_first(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    account.logs = {"algo-1": ["step=1 loss=0.5"]}
    job = write_job(cluster="dev")
    code, out, _ = run_launch(job, "--yes", "--detach", "--run-id", "nightly-7", "--output", "json")
    first = json.loads(out)
    assert (code, first["state"]) == (0, "InProgress")
    code, out, err = run_launch(job, "--run-id", "nightly-7")
    assert code == 0
    assert f"the run nightly-7 has launched this job already: {first['name']} is InProgress" in err
    assert f"Completed {first['name']}" in out
    assert [request["TrainingJobName"] for request in account.requests] == [first["name"]]


def test_a_detached_second_launch_says_how_the_first_is(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    job = write_job(cluster="dev")
    first = json.loads(run_launch(job, "--yes", "--run-id", "nightly-7", "--output", "json")[1])
    again = ("--detach", "--run-id", "nightly-7", "--output", "json")
    code, out, err = run_launch(job, *again)
    assert code == 0
    assert json.loads(out) == {"name": first["name"], "state": "Completed", "launched_before": True}
    assert "another --run-id launches it again" in err
    assert len(account.requests) == 1


def test_the_account_is_not_held_against_a_job_that_runs_already(
    run_launch: RunLaunch,
    write_job: WriteJob,
    cloud: EmulatedAccount,
    account: TrainingScript,
) -> None:
    job = write_job(cluster="dev")
    run_launch(job, "--yes", "--detach", "--run-id", "nightly-7")
    # Would refuse any new launch; this one creates nothing.
    cloud.client("s3").delete_bucket(Bucket=cloud.manifest()["buckets"]["checkpoints"])
    assert run_launch(job, "--yes", "--detach")[0] == 1
    assert run_launch(job, "--yes", "--detach", "--run-id", "nightly-7")[0] == 0


def test_in_ci_the_run_is_the_environments_own(
    run_launch: RunLaunch,
    write_job: WriteJob,
    account: TrainingScript,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job = write_job(cluster="dev")
    monkeypatch.setenv("CODEBUILD_BUILD_ID", "train:8f1c")
    run_launch(job, "--detach")
    _, _, err = run_launch(job, "--detach")
    assert "the run train:8f1c has launched this job already" in err
    run_launch(job, "--detach", "--run-id", "")
    assert len(account.requests) == 2


def test_one_run_queues_one_job(
    run_launch: RunLaunch, write_job: WriteJob, queue: EmulatedQueue, account: TrainingScript
) -> None:
    queue.room = False
    job = write_job(cluster="dev")
    for _ in range(2):
        assert run_launch(job, "--queue", "--detach", "--run-id", "nightly-7")[0] == 0
    assert len(queue.jobs) == 1
