"""`launch --queue`, and a queued job by its name, as its user sees them."""

from __future__ import annotations

import json

import pytest

from launcher.aws.clients import open_session
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount, provision
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript

REGION = "us-west-2"
QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"


@pytest.fixture
def queue(cloud: EmulatedAccount, account: TrainingScript, monkeypatch: pytest.MonkeyPatch) -> EmulatedQueue:
    """A queue that answers every client which the launcher makes."""
    session = open_session()
    monkeypatch.setattr("launcher.aws.clients.open_session", lambda: session)
    queue = EmulatedQueue(QUEUE, cloud.client("sagemaker"))
    queue.answer(session.events)
    provision(cloud, queue_arn=QUEUE)
    return queue


def test_a_job_goes_through_the_queue_to_its_end(
    run_launch: RunLaunch, write_job: WriteJob, queue: EmulatedQueue, account: TrainingScript
) -> None:
    account.logs = {"algo-1": ["step=1 loss=0.5"]}
    code, out, _ = run_launch(write_job(cluster="dev"), "--yes", "--queue")
    [job] = queue.jobs.values()
    assert code == 0
    assert "algo-1 step=1 loss=0.5" in out
    assert f"Completed {job['jobName']}" in out


def test_a_job_that_waits_is_found_by_its_name_listed_and_stopped(
    run_launch: RunLaunch, write_job: WriteJob, queue: EmulatedQueue
) -> None:
    queue.room = False
    _, out, _ = run_launch(write_job(cluster="dev"), "--yes", "--queue", "--detach", "--output", "json")
    name = json.loads(out)["name"]
    assert "Queued (runnable)" in run_launch("status", name)[1]
    assert name in run_launch("list", "--queue", "dev")[1]
    assert run_launch("stop", name)[0] == 0
    code, out, _ = run_launch("status", name)
    assert (code, "Stopped" in out) == (0, True)
    assert "STOP001 taken out of the queue: stopped by launch stop (process" in out
    code, out, _ = run_launch("diagnose", name, "--output", "json")
    assert (code, json.loads(out)["verdict"]) == (0, "stopped")


def test_a_failed_job_of_the_queue_is_not_tried_again_here(
    run_launch: RunLaunch, write_job: WriteJob, queue: EmulatedQueue, account: TrainingScript
) -> None:
    account.failure_reason = "AlgorithmError: HW001 rank 3 on algo-2: uncorrectable ECC error, exit code: 1"
    job = write_job(cluster="dev", limits={"max_retries": 2})
    code, _, _ = run_launch(job, "--yes", "--queue")
    assert code == 1
    assert len(queue.jobs) == 1


def test_a_cluster_without_a_queue_is_told(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    code, _, err = run_launch(write_job(cluster="dev"), "--yes", "--queue")
    assert code == 2
    assert "the cluster dev has no queue" in err
    assert account.requests == []


def test_the_queue_of_an_unknown_cluster_is_refused_with_the_known_ones(run_launch: RunLaunch) -> None:
    code, _, err = run_launch("list", "--queue", "nowhere")
    assert code == 2
    assert "no queue of a cluster nowhere is known" in err


def test_a_job_of_the_queue_cannot_be_resumed_by_its_name(
    run_launch: RunLaunch, write_job: WriteJob, queue: EmulatedQueue
) -> None:
    _, out, _ = run_launch(write_job(cluster="dev"), "--yes", "--queue", "--output", "json")
    name = json.loads(out)["name"]
    code, _, err = run_launch("resume", name, "--yes", "--detach")
    assert code == 2
    assert f"{name} went through queue, which cannot resume a job" in err
    assert f"--set checkpoint.resume_from={name}" in err
