"""A backend on emulated SageMaker, with retries that do not wait, and plans for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from launcher.aws.clients import Clients
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import Cluster
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from launcher.source.tree import SourceTree
from tests.emulator.buckets import emulated_buckets
from tests.emulator.faults import no_backoff
from tests.emulator.sagemaker import TrainingScript, emulated_training

REGION = "us-west-2"
ACCOUNT = "123456789012"
"""moto's, which the buckets belong to."""
BUCKETS = ("dev-code", "dev-checkpoints")


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


@pytest.fixture
def script(credentials: None) -> Iterator[TrainingScript]:
    with mock_aws(), emulated_buckets(), emulated_training(TrainingScript()) as script, no_backoff():
        yield script


@pytest.fixture
def clients(script: TrainingScript) -> dict[str, Any]:
    """The clients as the launcher makes them, and the cluster's buckets."""
    make = Clients()
    clients = {name: make(name, REGION) for name in ("sagemaker", "logs", "s3")}
    for bucket in BUCKETS:
        location = {"LocationConstraint": REGION}
        clients["s3"].create_bucket(Bucket=bucket, CreateBucketConfiguration=location)
    return clients


@pytest.fixture
def backend(clients: dict[str, Any]) -> SageMakerBackend:
    return SageMakerBackend(**clients)


@pytest.fixture
def plan_of(write_job: Callable[..., Path], manifest: dict[str, Any]) -> Callable[..., TrainingPlan]:
    """The plan of a job; without `unique` every call gives it another name, as every launch does."""

    def plan(
        unique: str | None = None,
        cluster: bool = True,
        account: str = ACCOUNT,
        source: SourceTree | None = None,
        **changes: Any,
    ) -> TrainingPlan:
        ours = {**manifest, "role_arn": f"arn:aws:iam::{account}:role/slipway-dev-training"}
        known = Cluster.model_validate(ours) if cluster else None
        loaded = load_job(write_job(**changes))
        return prepare_for(loaded, known, session_region=REGION, unique=unique, source=source)

    return plan


@dataclass(frozen=True)
class Emulated:
    """Emulated SageMaker: a backend on it, its clients, plans for it, and what it was asked."""

    backend: SageMakerBackend
    script: TrainingScript
    clients: dict[str, Any]
    plan_of: Callable[..., TrainingPlan]

    @property
    def s3(self) -> Any:
        return self.clients["s3"]

    def store(self, job: str, *names: str, bucket: str = "dev-checkpoints", body: bytes = b"saved") -> None:
        """Write checkpoint files of a job, in this order."""
        for name in names:
            self.s3.put_object(Bucket=bucket, Key=f"{job}/{name}", Body=body)

    def stored(self, job: str) -> list[str]:
        """The checkpoint files of a job."""
        listed = self.s3.list_objects_v2(Bucket="dev-checkpoints", Prefix=f"{job}/")
        return [item["Key"].removeprefix(f"{job}/") for item in listed.get("Contents", ())]

    def to_the_end(self, name: str) -> str:
        """Let a job run to its end; returns its name."""
        while not self.backend.describe(name).state.is_final:
            pass
        return name


@pytest.fixture
def aws(
    backend: SageMakerBackend,
    script: TrainingScript,
    clients: dict[str, Any],
    plan_of: Callable[..., TrainingPlan],
) -> Emulated:
    return Emulated(backend, script, clients, plan_of)
