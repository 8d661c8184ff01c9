"""Plans in the cluster's queue: known by our name, whatever Batch calls its training jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest

from launcher.backends.interface import BackendError, JobQuery, JobState, NameTakenError
from launcher.backends.queue import QueueBackend, retries_of
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import AwsRefusal
from launcher.jobs.load_job import load_job
from launcher.planning.finished_request import without_host_token
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from tests.emulator.batch import EmulatedQueue
from tests.emulator.sagemaker import TrainingScript

REGION = "us-west-2"
QUEUE = f"arn:aws:batch:{REGION}:123456789012:job-queue/dev"


def backend_of(queue: EmulatedQueue, share: str | None = None) -> QueueBackend:
    clients = {name: boto3.client(name, region_name=REGION) for name in ("sagemaker", "logs", "s3")}
    return QueueBackend(
        queue.attach(boto3.client("batch", region_name=REGION)),
        QUEUE,
        training=SageMakerBackend(**clients),
        provide=lambda *_: None,
        share=share,
    )


@dataclass
class Queued:
    """A backend on an emulated queue, how its jobs go, and a plan for it."""

    backend: QueueBackend
    queue: EmulatedQueue
    script: TrainingScript
    plan: TrainingPlan


@pytest.fixture
def site(script: TrainingScript, write_job: Callable[..., Path], manifest: dict[str, Any]) -> Queued:
    loaded = load_job(write_job(limits={"max_retries": 2}, tags={"team": "vision"}))
    cluster = Cluster.model_validate(manifest)
    plan = prepare_for(loaded, cluster, session_region=REGION, unique="0unique")
    queue = EmulatedQueue(QUEUE, boto3.client("sagemaker", region_name=REGION))
    return Queued(backend_of(queue), queue, script, plan)


def followed(backend: QueueBackend, name: str) -> list[tuple[JobState, str]]:
    """The states that a job passes, to its end."""
    seen = []
    for _ in range(20):
        status = backend.describe(name)
        seen.append((status.state, status.phase))
        if status.state.is_final:
            return seen
    raise AssertionError(f"no end: {seen}")


def test_the_queue_gets_the_request_of_the_plan(site: Queued) -> None:
    assert site.backend.submit(site.plan) == "digits-0unique"
    [job] = site.queue.jobs.values()
    assert without_host_token(json.loads(job["serviceRequestPayload"])) == site.plan.request
    assert (job["jobName"], job["jobQueue"]) == ("digits-0unique", QUEUE)
    assert job["tags"] == {"team": "vision", "slipway:cluster": "dev"}


def test_the_code_is_uploaded_before_the_job_is_queued(site: Queued) -> None:
    def refuse(*_: object) -> None:
        raise AwsRefusal("could not upload.", "Try again.")

    backend = backend_of(site.queue)
    backend._provide = refuse
    with pytest.raises(AwsRefusal):
        backend.submit(site.plan)
    assert site.queue.jobs == {}


def test_the_same_job_is_queued_once(site: Queued) -> None:
    assert site.backend.submit(site.plan) == site.backend.submit(site.plan)
    assert len(site.queue.jobs) == 1


def test_another_job_of_the_same_name_is_refused(site: Queued) -> None:
    site.backend.submit(site.plan)
    other = {**(site.plan.request or {}), "HyperParameters": {"lr": "0.5"}}
    with pytest.raises(NameTakenError, match="another job"):
        site.backend.submit(replace(site.plan, request=other))
    assert len(site.queue.jobs) == 1


def test_only_what_may_pass_is_repeated(site: Queued) -> None:
    site.backend.submit(site.plan)
    [job] = site.queue.jobs.values()
    assert job["retryStrategy"]["attempts"] == 3
    assert job["retryStrategy"]["evaluateOnExit"][-1] == {"action": "EXIT", "onStatusReason": "*"}


def is_repeated(reason: str, **request: Any) -> bool:
    """What Batch does after an attempt that ended so: the first rule that matches counts, at most five."""
    rules = retries_of(RequestView(request))["evaluateOnExit"]
    assert len(rules) <= 5
    whole = f"Received status from SageMaker: {reason}"
    return next(rule["action"] for rule in rules if fnmatchcase(whole, rule["onStatusReason"])) == "RETRY"


@pytest.mark.parametrize(
    ("reason", "repeated"),
    [
        ("InternalServerError: We encountered an internal error. Please try again.", True),
        ("AlgorithmError: HW001 algo-2: GPU 3: Xid 48, exit code: 1", True),
        ("AlgorithmError: NCCL006 rank 9 on algo-2: connection closed by peer, exit code: 1", True),
        ("AlgorithmError: NCCL008 algo-3 did not answer the roll-call, exit code: 1", True),
        ("AlgorithmError: CODE001 rank 0 on algo-1: ValueError, exit code: 1", False),
        ("AlgorithmError: MEM001 rank 3 on algo-2: CUDA out of memory, exit code: 1", False),
        ("AlgorithmError: NCCL005 rank 3 on algo-2: a collective timed out, exit code: 1", False),
        ("ClientError: Data download failed", False),
    ],
)
def test_the_queue_repeats_what_other_hosts_may_mend_by_the_code_of_the_failure(
    reason: str, repeated: bool
) -> None:
    assert is_repeated(reason) is repeated


def test_a_warm_pool_would_give_the_same_hosts_again() -> None:
    pool = {"KeepAlivePeriodInSeconds": 600}
    assert not is_repeated("AlgorithmError: HW001 algo-2: GPU 3: Xid 48", ResourceConfig=pool)
    assert is_repeated("InternalServerError: We encountered an internal error.", ResourceConfig=pool)


@pytest.mark.parametrize(
    ("max_usd", "attempts"),
    [(500, 3), (126.6 * 2.5, 2), (50, 1)],
    ids=["all", "two in full", "a part of one"],
)
def test_the_queue_repeats_no_more_often_than_a_budget_pays_for(max_usd: float, attempts: int) -> None:
    budget = json.dumps({"max_usd": max_usd, "usd_per_hour": 63.296})
    request = {
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "RetryStrategy": {"MaximumRetryAttempts": 2},
        "Environment": {"SLIPWAY_BUDGET": budget},
    }
    assert retries_of(RequestView(request))["attempts"] == attempts


def test_a_tuning_job_does_not_fit_a_queue(site: Queued) -> None:
    request = {"HyperParameterTuningJobName": "digits-0unique"}
    with pytest.raises(BackendError, match="CreateHyperParameterTuningJob"):
        site.backend.submit(replace(site.plan, request=request, operation="CreateHyperParameterTuningJob"))


def test_a_queued_job_says_that_it_waits(site: Queued) -> None:
    site.queue.room = False
    name = site.backend.submit(site.plan)
    status = site.backend.describe(name)
    assert (status.name, status.state, status.phase) == (name, JobState.IN_PROGRESS, "Queued (runnable)")
    assert site.backend.read_logs(name, {}).lines == []


def test_a_failure_is_the_training_jobs_own(site: Queued) -> None:
    site.script.failure_reason = "AlgorithmError: CODE001 rank 0 on algo-1: ValueError, exit code: 1"
    name = site.backend.submit(site.plan)
    assert followed(site.backend, name)[-1][0] is JobState.FAILED
    assert site.backend.describe(name).failure_reason == site.script.failure_reason
    assert len(site.script.requests) == 1


def test_an_attempt_that_is_repeated_is_no_failure(site: Queued) -> None:
    site.script.failure_reason = "InternalServerError: try again"
    site.script.logs = {"algo-1": ["step 1"]}
    name = site.backend.submit(site.plan)
    states = followed(site.backend, name)
    assert len(site.script.requests) == 3
    assert [state for state, _ in states[:-1]] == [JobState.IN_PROGRESS] * (len(states) - 1)
    assert states[-1][0] is JobState.FAILED
    assert [line.text for line in site.backend.read_logs(name, {}).lines] == ["step 1"] * 3


def test_a_job_that_waits_can_be_stopped(site: Queued) -> None:
    site.queue.room = False
    name = site.backend.submit(site.plan)
    site.backend.stop(name)
    site.queue.room = True
    assert followed(site.backend, name)[-1] == (JobState.STOPPED, "Stopped")
    assert site.script.requests == []


def test_a_share_is_named_where_the_queue_has_shares(site: Queued) -> None:
    site.queue.shares = True
    backend_of(site.queue, share="research").submit(site.plan)
    [job] = site.queue.jobs.values()
    assert job["shareIdentifier"] == "research"


def test_an_unknown_name_is_told(site: Queued) -> None:
    assert not site.backend.holds("absent")
    with pytest.raises(BackendError, match="no job absent in the queue"):
        site.backend.describe("absent")


def test_the_jobs_of_the_queue_are_listed_newest_first(site: Queued) -> None:
    site.queue.room = False
    for number in range(3):
        request = {**(site.plan.request or {}), "TrainingJobName": f"digits-{number}"}
        site.backend.submit(replace(site.plan, request=request))
    site.backend.stop("digits-1")
    listed = site.backend.jobs(JobQuery())
    assert [job.name for job in listed] == ["digits-2", "digits-1", "digits-0"]
    assert [job.name for job in site.backend.jobs(JobQuery(state=JobState.STOPPED))] == ["digits-1"]
    assert [job.name for job in site.backend.jobs(JobQuery(name="0"))] == ["digits-0"]
    assert [job.name for job in site.backend.jobs(JobQuery(limit=2))] == ["digits-2", "digits-1"]
    assert site.backend.jobs(JobQuery(since=listed[0].created)) == []
