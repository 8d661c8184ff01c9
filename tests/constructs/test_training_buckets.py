"""The buckets: closed, encrypted, logged, and deaf to plain HTTP."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from constructs.training_buckets import TrainingBuckets

from tests.emulator.iam_policy import allows, flat
from tests.stacks.synthesis import new_stack, resources_of, template_of


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack()
    TrainingBuckets(stack, "Buckets", removal_policy=cdk.RemovalPolicy.RETAIN)
    return template_of(stack)


@pytest.fixture(scope="module")
def buckets(template: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each["Properties"] for name, each in resources_of(template, "AWS::S3::Bucket").items()}


def test_every_bucket_refuses_plain_http(template: dict[str, Any], buckets: dict[str, Any]) -> None:
    policies = resources_of(template, "AWS::S3::BucketPolicy").values()
    refusing = {
        policy["Properties"]["Bucket"]["Ref"]
        for policy in policies
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]
        if statement["Effect"] == "Deny"
        and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        and statement["Action"] == "s3:*"
    }

    assert refusing == buckets.keys()


@pytest.fixture(scope="module")
def of_the_code(template: dict[str, Any], buckets: dict[str, Any]) -> dict[str, Any]:
    """What the policy of the bucket of the code denies, as if it allowed that."""
    (bucket,) = [name for name in buckets if name.startswith("BucketsCode")]
    (policy,) = [
        each["Properties"]["PolicyDocument"]
        for each in resources_of(template, "AWS::S3::BucketPolicy").values()
        if each["Properties"]["Bucket"]["Ref"] == bucket
    ]
    statements = flat(policy, {f"{bucket}.Arn": "arn:aws:s3:::our-code"})["Statement"]
    assert all(each["Principal"] == {"AWS": "*"} for each in statements if each["Effect"] == "Deny")
    return {"Statement": [{**each, "Effect": "Allow"} for each in statements if each["Effect"] == "Deny"]}


CREATES, SENDS_A_PART = ({"s3:ObjectCreationOperation": each} for each in ("true", "false"))


@pytest.mark.parametrize(
    ("key", "context", "denied"),
    [
        ("code/1a2b/source.tar.gz", CREATES, True),
        ("code/1a2b/source.tar.gz", {**CREATES, "s3:if-none-match": "*"}, False),
        ("code/1a2b/source.tar.gz", SENDS_A_PART, False),
        ("elsewhere", CREATES, False),
    ],
)
def test_nobody_can_put_code_where_some_lies(
    of_the_code: dict[str, Any], key: str, context: dict[str, str], denied: bool
) -> None:
    context = {"aws:SecureTransport": "true", **context}
    assert allows(of_the_code, "s3:PutObject", f"arn:aws:s3:::our-code/{key}", context) is denied


def test_code_is_kept_for_good(buckets: dict[str, Any]) -> None:
    (code,) = [each for name, each in buckets.items() if name.startswith("BucketsCode")]
    for rule in code["LifecycleConfiguration"]["Rules"]:
        assert "ExpirationInDays" not in rule and "ExpirationDate" not in rule


def test_no_bucket_can_be_made_public(buckets: dict[str, Any]) -> None:
    assert len(buckets) == 4
    assert all(all(bucket["PublicAccessBlockConfiguration"].values()) for bucket in buckets.values())
    assert all(len(bucket["PublicAccessBlockConfiguration"]) == 4 for bucket in buckets.values())


def test_every_bucket_is_encrypted(buckets: dict[str, Any]) -> None:
    assert all("BucketEncryption" in bucket for bucket in buckets.values())


def test_every_bucket_but_the_log_keeps_old_versions_for_a_while(buckets: dict[str, Any]) -> None:
    versioned = [bucket for bucket in buckets.values() if "VersioningConfiguration" in bucket]

    assert len(versioned) == 3
    for bucket in versioned:
        (rule,) = bucket["LifecycleConfiguration"]["Rules"]
        assert rule["NoncurrentVersionExpiration"] == {"NoncurrentDays": 14}
        assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}


def test_three_buckets_log_into_the_fourth(buckets: dict[str, Any]) -> None:
    (log,) = [name for name, bucket in buckets.items() if "LoggingConfiguration" not in bucket]
    prefixes = {
        bucket["LoggingConfiguration"]["LogFilePrefix"] for name, bucket in buckets.items() if name != log
    }

    assert prefixes == {"code/", "checkpoints/", "output/"}
