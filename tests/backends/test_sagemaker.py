"""Plans on emulated SageMaker: uploaded first, created once, described and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from launcher.backends.interface import BackendError, JobState
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import Cluster
from launcher.failure_modes.refusal import AwsRefusal
from launcher.jobs.load import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import prepare
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingScript]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws(), emulated_training(TrainingScript()) as script:
        yield script


@pytest.fixture
def clients(script: TrainingScript) -> dict[str, Any]:
    names = ("sagemaker", "logs", "s3")
    clients = {name: boto3.client(name, region_name=REGION) for name in names}
    location = {"LocationConstraint": REGION}
    clients["s3"].create_bucket(Bucket="dev-code", CreateBucketConfiguration=location)
    return clients


@pytest.fixture
def backend(clients: dict[str, Any]) -> SageMakerBackend:
    return SageMakerBackend(**clients)


@pytest.fixture
def plan_of(write_job: Callable[..., Path], manifest: dict[str, Any]) -> Callable[..., TrainingPlan]:
    def plan(unique: str = "0unique", cluster: bool = True, **changes: Any) -> TrainingPlan:
        known = Cluster.model_validate(manifest) if cluster else None
        return prepare(load_job(write_job(**changes)), session_region=REGION, cluster=known, unique=unique)

    return plan


def test_what_is_sent_is_the_request_of_the_plan(
    backend: SageMakerBackend, script: TrainingScript, plan_of: Callable[..., TrainingPlan]
) -> None:
    plan = plan_of()
    assert backend.submit(plan) == "digits-0unique"
    assert script.requests == [plan.request]


def test_the_code_lies_where_the_request_says(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: Callable[..., TrainingPlan]
) -> None:
    backend.submit(plan_of())
    listed = clients["s3"].list_objects_v2(Bucket="dev-code", Prefix="digits-0unique/")
    assert [item["Key"] for item in listed["Contents"]] == [
        "digits-0unique/slipway.pyz",
        "digits-0unique/source.tar.gz",
    ]


def test_a_toolkit_strategy_finds_its_archive_and_nothing_else(
    backend: SageMakerBackend, clients: dict[str, Any], plan_of: Callable[..., TrainingPlan]
) -> None:
    plan = plan_of(distribution={"strategy": "smddp"}, framework={"version": "2.0.1"})
    backend.submit(plan)
    listed = clients["s3"].list_objects_v2(Bucket="dev-code", Prefix="digits-0unique/")
    assert [item["Key"] for item in listed["Contents"]] == ["digits-0unique/sourcedir.tar.gz"]
    submitted = plan.request["HyperParameters"]["sagemaker_submit_directory"]
    assert submitted == '"s3://dev-code/digits-0unique/sourcedir.tar.gz"'


def test_nothing_is_created_when_the_upload_fails(
    backend: SageMakerBackend,
    script: TrainingScript,
    clients: dict[str, Any],
    plan_of: Callable[..., TrainingPlan],
) -> None:
    clients["s3"].delete_bucket(Bucket="dev-code")
    with pytest.raises(AwsRefusal, match="upload"):
        backend.submit(plan_of())
    assert script.requests == []


def test_a_plan_with_placeholders_is_not_submitted(
    backend: SageMakerBackend, script: TrainingScript, plan_of: Callable[..., TrainingPlan]
) -> None:
    with pytest.raises(BackendError, match="role_arn, bucket"):
        backend.submit(plan_of(cluster=False))
    assert script.requests == []


def test_a_name_that_is_taken_is_refused_with_what_aws_said(
    backend: SageMakerBackend, plan_of: Callable[..., TrainingPlan]
) -> None:
    backend.submit(plan_of())
    with pytest.raises(AwsRefusal, match="ResourceInUse"):
        backend.submit(plan_of())


def test_a_job_goes_through_its_phases_to_its_end(
    backend: SageMakerBackend, plan_of: Callable[..., TrainingPlan]
) -> None:
    name = backend.submit(plan_of())
    seen = [backend.describe(name) for _ in range(5)]
    assert [status.phase for status in seen] == [
        "Starting", "Downloading", "Training", "Uploading", "Completed",
    ]  # fmt: skip
    assert seen[-1].state is JobState.COMPLETED
    assert seen[-1].checkpoints == "s3://dev-checkpoints/digits-0unique"


def test_a_failed_job_hands_on_the_reason(
    backend: SageMakerBackend, script: TrainingScript, plan_of: Callable[..., TrainingPlan]
) -> None:
    script.failure_reason = "AlgorithmError: CODE001 rank 3 on algo-2: ValueError: x, exit code: 1"
    name = backend.submit(plan_of())
    last = [backend.describe(name) for _ in range(5)][-1]
    assert (last.state, last.failure_reason) == (JobState.FAILED, script.failure_reason)


def test_a_stopped_job_ends_stopped(backend: SageMakerBackend, plan_of: Callable[..., TrainingPlan]) -> None:
    name = backend.submit(plan_of())
    backend.stop(name)
    assert [backend.describe(name).state for _ in range(3)][-1] is JobState.STOPPED


def test_log_lines_of_all_hosts_come_once_and_in_the_order_of_time(
    backend: SageMakerBackend, script: TrainingScript, plan_of: Callable[..., TrainingPlan]
) -> None:
    script.logs = {"algo-1": [f"one {n}" for n in range(5)], "algo-2": [f"two {n}" for n in range(3)]}
    name = backend.submit(plan_of())
    assert backend.read_logs(name, {}).lines == []
    for _ in range(3):
        backend.describe(name)
    first = backend.read_logs(name, {})
    assert len(first.lines) == 8
    assert [line.time for line in first.lines] == sorted(line.time for line in first.lines)
    assert {line.host for line in first.lines} == {"algo-1", "algo-2"}
    assert backend.read_logs(name, first.cursor).lines == []
