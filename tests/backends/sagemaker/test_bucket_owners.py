"""Calls about the cluster's own buckets say whose they are; those that the user names may be anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from launcher.backends.sagemaker import upload
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.failure_modes.model import AwsRefusal
from tests.backends.sagemaker.conftest import ACCOUNT, REGION
from tests.emulator.sagemaker import TrainingScript
from tests.session.submission.launches import PlanOf

ANOTHER = "999999999999"


@pytest.fixture
def calls(clients: dict[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The calls of S3, each with its parameters as they are sent."""
    made: list[tuple[str, Mapping[str, Any]]] = []
    clients["s3"].meta.events.register_last(
        "before-parameter-build.s3", lambda params, model, **_: made.append((model.name, params))
    )
    return made


def store(clients: dict[str, Any], bucket: str, size: int = 5) -> None:
    clients["s3"].put_object(Bucket=bucket, Key="run/step-1.pt", Body=bytes(size))


@pytest.mark.parametrize("size", [5, 6 * 1024 * 1024], ids=["whole", "in parts"])
def test_every_call_names_the_account_of_the_clusters_bucket(
    backend: SageMakerBackend,
    clients: dict[str, Any],
    plan_of: PlanOf,
    calls: list[tuple[str, Mapping[str, Any]]],
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    monkeypatch.setattr(upload, "PART_BYTES", 5 * 1024 * 1024)
    store(clients, "dev-checkpoints", size)
    calls.clear()
    backend.submit(plan_of(checkpoint={"resume_from": "s3://dev-checkpoints/run"}))
    assert {"PutObject", "HeadObject", "ListObjectsV2"} < {name for name, _ in calls}
    assert {"CopyObject", "UploadPartCopy"} & {name for name, _ in calls}
    for name, parameters in calls:
        assert parameters.get("ExpectedBucketOwner") == ACCOUNT, name
        assert ("CopySource" in parameters) == (parameters.get("ExpectedSourceBucketOwner") == ACCOUNT), name


def test_a_bucket_that_the_user_names_may_be_anybodys(
    backend: SageMakerBackend,
    clients: dict[str, Any],
    plan_of: PlanOf,
    calls: list[tuple[str, Mapping[str, Any]]],
) -> None:
    location = {"LocationConstraint": REGION}
    clients["s3"].create_bucket(Bucket="partners", CreateBucketConfiguration=location)
    store(clients, "partners")
    calls.clear()
    backend.submit(plan_of(checkpoint={"resume_from": "s3://partners/run"}))
    theirs = [parameters for _, parameters in calls if parameters["Bucket"] == "partners"]
    copies = [parameters for _, parameters in calls if "CopySource" in parameters]
    assert theirs and copies
    assert not any("ExpectedBucketOwner" in each for each in theirs)
    assert not any("ExpectedSourceBucketOwner" in each for each in copies)


def test_code_does_not_go_to_a_bucket_of_somebody_else(
    backend: SageMakerBackend, script: TrainingScript, clients: dict[str, Any], plan_of: PlanOf
) -> None:
    with pytest.raises(AwsRefusal, match=f"dev-code to the account {ANOTHER}"):
        backend.submit(plan_of(account=ANOTHER))
    assert script.requests == []
    assert clients["s3"].list_objects_v2(Bucket="dev-code")["KeyCount"] == 0


def test_the_expectations_end_with_the_launch(
    backend: SageMakerBackend,
    clients: dict[str, Any],
    plan_of: PlanOf,
    calls: list[tuple[str, Mapping[str, Any]]],
) -> None:
    backend.submit(plan_of())
    calls.clear()
    clients["s3"].list_objects_v2(Bucket="dev-code")
    clients["s3"].put_object(Bucket="dev-code", Key="x", Body=b"1")
    clients["s3"].put_object(Bucket="dev-code", Key="x", Body=b"2")
    assert [set(parameters) & {"ExpectedBucketOwner", "IfNoneMatch"} for _, parameters in calls] == [
        set()
    ] * 3
