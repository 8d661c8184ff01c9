"""Jobs on emulated SageMaker: described and read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from launcher.backends.interface import JobState
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import Cluster
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from tests.emulator.sagemaker import TrainingScript

REGION = "us-west-2"


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
        return prepare_for(load_job(write_job(**changes)), known, session_region=REGION, unique=unique)

    return plan


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
