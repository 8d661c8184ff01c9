"""Plans in the cluster's queue: known by our name, whatever Batch calls its training jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import pytest

from launcher.backends.interface import BackendError, JobQuery, JobState, NameTakenError, OnProgress
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import AwsRefusal
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript

REGION = "us-west-2"
QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"


@pytest.fixture
def queue(script: TrainingScript) -> EmulatedQueue:
    return EmulatedQueue(QUEUE, boto3.client("sagemaker", region_name=REGION))


@pytest.fixture
def uploads() -> list[TrainingPlan]:
    return []


@pytest.fixture
def backend(queue: EmulatedQueue, uploads: list[TrainingPlan]) -> QueueBackend:
    return backend_of(queue, uploads)


def backend_of(queue: EmulatedQueue, uploads: list[TrainingPlan], share: str | None = None) -> QueueBackend:
    clients = {name: boto3.client(name, region_name=REGION) for name in ("sagemaker", "logs", "s3")}
    return QueueBackend(
        queue.attach(boto3.client("batch", region_name=REGION)),
        QUEUE,
        training=SageMakerBackend(**clients),
        provide=lambda plan, _: uploads.append(plan),
        share=share,
    )


@pytest.fixture
def plan(write_job: Callable[..., Path], manifest: dict[str, Any]) -> TrainingPlan:
    cluster = Cluster.model_validate(manifest)
    loaded = load_job(write_job(limits={"max_retries": 2}, tags={"team": "vision"}))
    return prepare_for(loaded, cluster, session_region=REGION, unique="0unique")


def followed(backend: QueueBackend, name: str) -> list[tuple[JobState, str]]:
    """The states that a job passes, to its end."""
    seen = []
    for _ in range(20):
        status = backend.describe(name)
        seen.append((status.state, status.phase))
        if status.state.is_final:
            return seen
    raise AssertionError(f"no end: {seen}")


def test_the_queue_gets_the_request_of_the_plan(
    backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan
) -> None:
    assert backend.submit(plan) == "digits-0unique"
    [job] = queue.jobs.values()
    assert json.loads(job["serviceRequestPayload"]) == plan.request
    assert (job["jobName"], job["jobQueue"]) == ("digits-0unique", QUEUE)
    assert job["tags"] == {"team": "vision", "slipway:cluster": "dev"}


def test_the_code_is_uploaded_before_the_job_is_queued(queue: EmulatedQueue, plan: TrainingPlan) -> None:
    def refuse(plan: TrainingPlan, on_progress: OnProgress | None) -> None:
        raise AwsRefusal("could not upload.", "Try again.")

    backend = backend_of(queue, [])
    backend._provide = refuse
    with pytest.raises(AwsRefusal):
        backend.submit(plan)
    assert queue.jobs == {}


def test_the_same_job_is_queued_once(backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan) -> None:
    assert backend.submit(plan) == backend.submit(plan)
    assert len(queue.jobs) == 1


def test_another_job_of_the_same_name_is_refused(
    backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan
) -> None:
    backend.submit(plan)
    other = {**(plan.request or {}), "HyperParameters": {"lr": "0.5"}}
    with pytest.raises(NameTakenError, match="another job"):
        backend.submit(replace(plan, request=other))
    assert len(queue.jobs) == 1


def test_only_what_may_pass_is_repeated(
    backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan
) -> None:
    backend.submit(plan)
    [job] = queue.jobs.values()
    assert job["retryStrategy"]["attempts"] == 3
    assert [rule["action"] for rule in job["retryStrategy"]["evaluateOnExit"]] == ["RETRY", "EXIT"]


def test_a_tuning_job_does_not_fit_a_queue(backend: QueueBackend, plan: TrainingPlan) -> None:
    request = {"HyperParameterTuningJobName": "digits-0unique"}
    with pytest.raises(BackendError, match="CreateHyperParameterTuningJob"):
        backend.submit(replace(plan, request=request, operation="CreateHyperParameterTuningJob"))


def test_a_queued_job_says_that_it_waits(
    backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan
) -> None:
    queue.room = False
    name = backend.submit(plan)
    status = backend.describe(name)
    assert (status.name, status.state, status.phase) == (name, JobState.IN_PROGRESS, "Queued (runnable)")
    assert backend.read_logs(name, {}).lines == []


def test_a_job_with_room_is_followed_to_its_end(
    backend: QueueBackend, script: TrainingScript, plan: TrainingPlan
) -> None:
    script.logs = {"algo-1": ["step 1", "step 2"]}
    name = backend.submit(plan)
    assert followed(backend, name)[-1] == (JobState.COMPLETED, "Completed")
    batch = backend.read_logs(name, {})
    assert [line.text for line in batch.lines] == ["step 1", "step 2"]
    assert backend.read_logs(name, batch.cursor).lines == []


def test_a_failure_is_the_training_jobs_own(
    backend: QueueBackend, script: TrainingScript, plan: TrainingPlan
) -> None:
    script.failure_reason = "AlgorithmError: CODE001 rank 0 on algo-1: ValueError, exit code: 1"
    name = backend.submit(plan)
    assert followed(backend, name)[-1][0] is JobState.FAILED
    assert backend.describe(name).failure_reason == script.failure_reason
    assert len(script.requests) == 1


def test_an_attempt_that_is_repeated_is_no_failure(
    backend: QueueBackend, script: TrainingScript, plan: TrainingPlan
) -> None:
    script.failure_reason = "InternalServerError: try again"
    script.logs = {"algo-1": ["step 1"]}
    name = backend.submit(plan)
    states = followed(backend, name)
    assert len(script.requests) == 3
    assert [state for state, _ in states[:-1]] == [JobState.IN_PROGRESS] * (len(states) - 1)
    assert states[-1][0] is JobState.FAILED
    assert [line.text for line in backend.read_logs(name, {}).lines] == ["step 1"] * 3


def test_a_job_that_waits_can_be_stopped(
    backend: QueueBackend, queue: EmulatedQueue, script: TrainingScript, plan: TrainingPlan
) -> None:
    queue.room = False
    name = backend.submit(plan)
    backend.stop(name)
    queue.room = True
    assert followed(backend, name)[-1] == (JobState.STOPPED, "Stopped")
    assert script.requests == []


def test_a_running_job_is_stopped_with_its_training_job(backend: QueueBackend, plan: TrainingPlan) -> None:
    name = backend.submit(plan)
    backend.describe(name)
    backend.stop(name)
    assert backend.describe(name).state is JobState.STOPPED


def test_a_share_is_named_where_the_queue_has_shares(queue: EmulatedQueue, plan: TrainingPlan) -> None:
    queue.shares = True
    backend_of(queue, [], share="research").submit(plan)
    [job] = queue.jobs.values()
    assert job["shareIdentifier"] == "research"


def test_an_unknown_name_is_told(backend: QueueBackend) -> None:
    assert not backend.holds("absent")
    with pytest.raises(BackendError, match="no job absent in the queue"):
        backend.describe("absent")


def test_the_jobs_of_the_queue_are_listed_newest_first(
    backend: QueueBackend, queue: EmulatedQueue, plan: TrainingPlan
) -> None:
    queue.room = False
    for number in range(3):
        request = {**(plan.request or {}), "TrainingJobName": f"digits-{number}"}
        backend.submit(replace(plan, request=request))
    backend.stop("digits-1")
    listed = backend.jobs(JobQuery())
    assert [job.name for job in listed] == ["digits-2", "digits-1", "digits-0"]
    assert [job.name for job in backend.jobs(JobQuery(state=JobState.STOPPED))] == ["digits-1"]
    assert [job.name for job in backend.jobs(JobQuery(name="0"))] == ["digits-0"]
    assert [job.name for job in backend.jobs(JobQuery(limit=2))] == ["digits-2", "digits-1"]
    assert backend.jobs(JobQuery(since=listed[0].created)) == []
