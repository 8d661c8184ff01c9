"""S3001, S3002, IAM001, CKPT001 and IMG001: buckets, the role, other jobs' checkpoints, the image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.buckets import Bucket
from launcher.account.facts import Image, Permissions, Prefix, RunningJob, Unverified
from tests.rules.live.states import REGION, ROLE, SOUND, found, severities

URI = "s3://data/train"
DENIED = Unverified("the bucket data", "s3:ListBucket", "403")


@pytest.mark.parametrize(
    ("bucket", "says"),
    [
        pytest.param(Bucket("data", REGION), None, id="here"),
        pytest.param(Bucket("data", "eu-west-1"), "eu-west-1, the job in us-west-2", id="elsewhere"),
        pytest.param(None, "(input train) does not exist", id="nowhere"),
    ],
)
def test_buckets_exist_in_the_jobs_region(bucket: Bucket | None, says: str | None) -> None:
    findings = found("S3001", buckets={"data": bucket})
    assert len(findings) == (says is not None)
    assert says is None or says in findings[0].message


@pytest.mark.parametrize(
    ("bucket", "use"),
    [("data", "input train"), ("checkpoints", "checkpoints"), ("output", "output"), ("code", "code")],
)
def test_every_bucket_of_the_job_is_in_its_region(bucket: str, use: str) -> None:
    buckets = {**SOUND.buckets, bucket: Bucket(bucket, "eu-west-1")}
    (finding,) = found("S3001", buckets=buckets)
    assert f"the bucket {bucket} ({use}) is in eu-west-1, the job in us-west-2" in finding.message


def test_a_bucket_that_may_not_be_seen_is_not_verified() -> None:
    (finding,) = found("S3001", buckets={"data": DENIED})
    assert (finding.severity, finding.verified) == ("warning", False)
    assert "s3:ListBucket" in finding.message


@pytest.mark.parametrize(("objects", "count"), [(0, 1), (1, 0), (2, 0)])
def test_an_input_without_objects_is_an_error(objects: int, count: int) -> None:
    findings = found("S3001", prefixes={URI: Prefix(URI, objects)})
    assert [each.severity for each in findings] == ["error"] * count


def test_an_empty_prefix_of_a_missing_bucket_is_told_once() -> None:
    assert len(found("S3001", buckets={"data": None}, prefixes={URI: Prefix(URI, 0)})) == 1


def test_an_input_that_may_not_be_listed_is_not_verified() -> None:
    (finding,) = found("S3002", prefixes={URI: DENIED})
    assert not finding.verified


PUT, READ = ("s3:PutObject", "arn:aws:s3:::output/*"), ("s3:GetObject", "arn:aws:s3:::data/*")


@pytest.mark.parametrize(
    ("denied", "data", "other"),
    [
        pytest.param([], 0, 0, id="nothing"),
        pytest.param([PUT], 1, 0, id="the output"),
        pytest.param([PUT, READ], 2, 0, id="output and input"),
        pytest.param([("kms:Decrypt", "arn:aws:kms:::key/1")], 1, 0, id="the key of the data"),
        pytest.param([("ecr:BatchGetImage", "*")], 0, 1, id="the image"),
        pytest.param([PUT, ("ecr:BatchGetImage", "*"), ("logs:PutLogEvents", "*")], 1, 1, id="several"),
    ],
)
def test_what_the_role_is_denied_is_told_by_what_it_is_about(denied: Any, data: int, other: int) -> None:
    permissions = Permissions(ROLE, tuple(denied))
    assert len(found("S3002", permissions=permissions)) == data
    assert len(found("IAM001", permissions=permissions)) == other


def test_what_a_keys_own_policy_may_allow_is_not_verified() -> None:
    permissions = Permissions(ROLE, (), (("kms:Decrypt", "arn:aws:kms:::key/1"),))
    (finding,) = found("S3002", permissions=permissions)
    assert (finding.severity, finding.verified) == ("warning", False)


def trusting(principal: Any, effect: str = "Allow") -> Any:
    trust = {"Statement": [{"Effect": effect, "Principal": principal, "Action": "sts:AssumeRole"}]}
    return replace(SOUND.role, trust=trust)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("role", "says"),
    [
        pytest.param(trusting({"Service": "sagemaker.amazonaws.com"}), None, id="SageMaker"),
        pytest.param(
            trusting({"Service": ["ec2.amazonaws.com", "sagemaker.amazonaws.com"]}),
            None,
            id="it among others",
        ),
        pytest.param(trusting({"Service": "ec2.amazonaws.com"}), "trusts ec2.amazonaws.com", id="another"),
        pytest.param(trusting({"Service": "sagemaker.amazonaws.com"}, "Deny"), "trusts nobody", id="denied"),
        pytest.param(None, "does not exist", id="no role"),
    ],
)
def test_the_role_is_there_and_trusts_sagemaker(role: Any, says: str | None) -> None:
    findings = found("IAM001", role=role)
    assert len(findings) == (says is not None)
    assert says is None or says in findings[0].message


def test_a_caller_who_may_not_pass_the_role_is_told() -> None:
    (finding,) = found("IAM001", caller=Permissions("user/alice", (("iam:PassRole", ROLE),)))
    assert finding.severity == "error"
    assert "user/alice may not iam:PassRole" in finding.message


@pytest.mark.parametrize(
    ("other", "relation"),
    [
        pytest.param("s3://checkpoints/digits-1", "is that", id="the same"),
        pytest.param("s3://checkpoints/digits-1/", "is that", id="the same with a slash"),
        pytest.param("s3://checkpoints", "lies below", id="above"),
        pytest.param("s3://checkpoints/digits-1/run", "contains", id="below"),
        pytest.param("s3://checkpoints/digits-10", None, id="only begins alike"),
        pytest.param("s3://elsewhere/digits-1", None, id="another bucket"),
        pytest.param(None, None, id="none"),
    ],
)
def test_no_running_job_uses_the_checkpoints(other: str | None, relation: str | None) -> None:
    findings = found("CKPT001", running_jobs=(RunningJob("other-1", "InProgress", other),))
    assert len(findings) == (relation is not None)
    assert relation is None or relation in findings[0].message


def test_checkpoints_that_the_container_moves_are_judged_alike() -> None:
    request = {"CheckpointConfig": None, "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://checkpoints/x"}}
    running = (RunningJob("other-1", "InProgress", "s3://checkpoints/x"),)
    assert severities("CKPT001", running_jobs=running, request=request) == {"other-1": "error"}


def test_what_lies_at_the_checkpoints_already_is_a_warning() -> None:
    uri = "s3://checkpoints/digits-1"
    assert severities("CKPT001", prefixes={uri: Prefix(uri, 1)}) == {uri: "warning"}


@pytest.mark.parametrize(
    ("image", "count"),
    [
        (Image("train:1", True, REGION), 0),
        (Image("train:1", True), 0),
        (Image("train:1", False, REGION), 1),
        (Image("train:1", True, "eu-west-1"), 1),
    ],
)
def test_the_image_is_in_the_region(image: Image, count: int) -> None:
    assert len(found("IMG001", image=image)) == count
