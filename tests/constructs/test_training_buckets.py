"""The buckets: closed, encrypted, logged, and deaf to plain HTTP."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from constructs.training_buckets import TrainingBuckets

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
