"""Calls about the cluster's own buckets say whose they are; those that the user names may be anybody's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from launcher.backends.sagemaker import upload
from launcher.failure_modes.model import AwsRefusal
from tests.backends.sagemaker.conftest import ACCOUNT, REGION, Emulated

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
    aws: Emulated, calls: list[tuple[str, Mapping[str, Any]]], monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(upload, "PART_BYTES", 5 * 1024 * 1024)
    store(aws.clients, "dev-checkpoints", size)
    calls.clear()
    aws.backend.submit(aws.plan_of(checkpoint={"resume_from": "s3://dev-checkpoints/run"}))
    assert {"PutObject", "HeadObject", "ListObjectsV2"} < {name for name, _ in calls}
    assert {"CopyObject", "UploadPartCopy"} & {name for name, _ in calls}
    for name, parameters in calls:
        assert parameters.get("ExpectedBucketOwner") == ACCOUNT, name
        assert ("CopySource" in parameters) == (parameters.get("ExpectedSourceBucketOwner") == ACCOUNT), name


def test_a_bucket_that_the_user_names_may_be_anybodys(
    aws: Emulated, calls: list[tuple[str, Mapping[str, Any]]]
) -> None:
    location = {"LocationConstraint": REGION}
    aws.s3.create_bucket(Bucket="partners", CreateBucketConfiguration=location)
    store(aws.clients, "partners")
    calls.clear()
    aws.backend.submit(aws.plan_of(checkpoint={"resume_from": "s3://partners/run"}))
    theirs = [parameters for _, parameters in calls if parameters["Bucket"] == "partners"]
    copies = [parameters for _, parameters in calls if "CopySource" in parameters]
    assert theirs and copies
    assert not any("ExpectedBucketOwner" in each for each in theirs)
    assert not any("ExpectedSourceBucketOwner" in each for each in copies)


def test_code_does_not_go_to_a_bucket_of_somebody_else(aws: Emulated) -> None:
    with pytest.raises(AwsRefusal, match=f"dev-code to the account {ANOTHER}"):
        aws.backend.submit(aws.plan_of(account=ANOTHER))
    assert aws.script.requests == []
    assert aws.s3.list_objects_v2(Bucket="dev-code")["KeyCount"] == 0


def test_the_expectations_end_with_the_launch(
    aws: Emulated, calls: list[tuple[str, Mapping[str, Any]]]
) -> None:
    aws.backend.submit(aws.plan_of())
    calls.clear()
    aws.s3.list_objects_v2(Bucket="dev-code")
    aws.s3.put_object(Bucket="dev-code", Key="x", Body=b"1")
    aws.s3.put_object(Bucket="dev-code", Key="x", Body=b"2")
    assert [set(parameters) & {"ExpectedBucketOwner", "IfNoneMatch"} for _, parameters in calls] == [
        set()
    ] * 3
