"""Buckets: whether they are there, in which region, and how they are encrypted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.buckets import Bucket, BucketEncryption
from launcher.account.questions.storage import fetch_bucket, fetch_bucket_encryption, fetch_prefix
from launcher.failure_modes.refusal import AwsRefusal
from tests.emulator.buckets import emulated_buckets
from tests.emulator.faults import DENIED_S3, inject

REGION = "us-west-2"
KEY = "arn:aws:kms:us-west-2:123456789012:key/1"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("s3", region_name=REGION)


def create(s3: Any, name: str, region: str = REGION) -> None:
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})


def test_bucket_is_found_with_its_region(s3: Any) -> None:
    create(s3, "here")

    assert fetch_bucket(s3, "here") == Bucket("here", REGION)


def test_bucket_of_another_region_is_found_there() -> None:
    with mock_aws():
        create(boto3.client("s3", region_name="eu-west-1"), "there", "eu-west-1")

        assert fetch_bucket(boto3.client("s3", region_name=REGION), "there") == Bucket("there", "eu-west-1")


def test_redirect_tells_the_region(s3: Any) -> None:
    with Stubber(s3) as stubbed:
        headers = {"HTTPHeaders": {"x-amz-bucket-region": "eu-west-1"}}
        stubbed.add_client_error("head_bucket", "301", "Moved", 301, response_meta=headers)

        assert fetch_bucket(s3, "there") == Bucket("there", "eu-west-1")


def test_bucket_that_does_not_exist_is_none(s3: Any) -> None:
    assert fetch_bucket(s3, "nowhere") is None


def test_bucket_of_somebody_else_is_refused_with_the_permission(s3: Any) -> None:
    with Stubber(s3) as stubbed, pytest.raises(AwsRefusal, match=r"bucket theirs \(s3:ListBucket\)"):
        stubbed.add_client_error("head_bucket", "403", "Forbidden", 403)
        fetch_bucket(s3, "theirs")


@pytest.mark.parametrize(
    "fetch",
    [
        lambda s3, owner: fetch_bucket(s3, "ours", owner),
        lambda s3, owner: fetch_bucket_encryption(s3, "ours", owner),
        lambda s3, owner: fetch_prefix(s3, "s3://ours/data", owner),
    ],
    ids=["bucket", "encryption", "prefix"],
)
def test_a_bucket_of_another_owner_than_expected_is_refused_with_both_causes(
    s3: Any, fetch: Callable[[Any, str | None], Any]
) -> None:
    create(s3, "ours")
    with emulated_buckets():
        fetch(s3, None)
        fetch(s3, "123456789012")
        with pytest.raises(AwsRefusal, match=r"\(s3:.*ours to the account 999999999999"):
            fetch(s3, "999999999999")


def test_bucket_that_sets_no_encryption(s3: Any) -> None:
    create(s3, "bare")
    s3.delete_bucket_encryption(Bucket="bare")

    assert fetch_bucket_encryption(s3, "bare") == BucketEncryption(None, None)


def test_key_of_a_bucket_is_read(s3: Any) -> None:
    create(s3, "safe")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}}
    s3.put_bucket_encryption(Bucket="safe", ServerSideEncryptionConfiguration={"Rules": [rule]})

    assert fetch_bucket_encryption(s3, "safe") == BucketEncryption("aws:kms", KEY)


def test_refused_encryption_names_the_permission(s3: Any) -> None:
    create(s3, "here")
    inject(s3, "GetBucketEncryption", DENIED_S3)

    with pytest.raises(AwsRefusal, match="s3:GetEncryptionConfiguration"):
        fetch_bucket_encryption(s3, "here")
