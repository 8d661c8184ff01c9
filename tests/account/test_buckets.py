"""Buckets: whether they are there, in which region, and how they are protected."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.buckets import (
    Bucket,
    BucketProtection,
    fetch_bucket,
    fetch_bucket_protection,
    parse_bucket_protection,
)
from launcher.failure_modes.refusal import AwsRefusal

REGION = "us-west-2"
DENY_HTTP = {
    "Effect": "Deny",
    "Principal": {"AWS": "*"},
    "Action": "s3:*",
    "Resource": "*",
    "Condition": {"Bool": {"aws:SecureTransport": "false"}},
}
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


def test_bucket_without_any_protection(s3: Any) -> None:
    create(s3, "bare")
    s3.delete_bucket_encryption(Bucket="bare")

    assert fetch_bucket_protection(s3, "bare") == BucketProtection("bare", None, None, False, False, False)


def test_every_protection_is_read(s3: Any) -> None:
    create(s3, "safe")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}}
    s3.put_bucket_encryption(Bucket="safe", ServerSideEncryptionConfiguration={"Rules": [rule]})
    s3.put_bucket_versioning(Bucket="safe", VersioningConfiguration={"Status": "Enabled"})
    blocked = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")
    s3.put_public_access_block(Bucket="safe", PublicAccessBlockConfiguration=dict.fromkeys(blocked, True))
    s3.put_bucket_policy(Bucket="safe", Policy=json.dumps({"Statement": [DENY_HTTP]}))

    assert fetch_bucket_protection(s3, "safe") == BucketProtection("safe", "aws:kms", KEY, True, True, True)


def test_one_open_block_is_open(s3: Any) -> None:
    answer = {"PublicAccessBlockConfiguration": {"BlockPublicAcls": True, "RestrictPublicBuckets": True}}

    assert not parse_bucket_protection("b", {}, {}, answer, {}).public_access_blocked


@pytest.mark.parametrize(
    ("statement", "tls_only"),
    [
        pytest.param({}, True, id="everything of everybody"),
        pytest.param({"Principal": "*", "Action": ["s3:*"]}, True, id="written otherwise"),
        pytest.param(
            {"Condition": {"Bool": {"aws:SecureTransport": False}}}, True, id="condition as boolean"
        ),
        pytest.param({"Effect": "Allow"}, False, id="allowed"),
        pytest.param({"Action": "s3:PutObject"}, False, id="writing alone"),
        pytest.param({"Principal": {"AWS": "arn:aws:iam::1:root"}}, False, id="one account alone"),
        pytest.param(
            {"Condition": {"Bool": {"aws:SecureTransport": "true"}}}, False, id="the other way round"
        ),
        pytest.param({"Condition": {}}, False, id="without a condition"),
    ],
)
def test_plain_http_is_refused_by_a_denial_of_everything_to_everybody(
    statement: dict[str, Any], tls_only: bool
) -> None:
    for statements in ([{**DENY_HTTP, **statement}], {**DENY_HTTP, **statement}):
        policy = {"Policy": json.dumps({"Statement": statements})}

        assert parse_bucket_protection("b", {}, {}, {}, policy).tls_only is tls_only


@pytest.mark.parametrize(
    ("operation", "permission"),
    [
        ("GetBucketEncryption", "s3:GetEncryptionConfiguration"),
        ("GetBucketVersioning", "s3:GetBucketVersioning"),
        ("GetPublicAccessBlock", "s3:GetBucketPublicAccessBlock"),
        ("GetBucketPolicy", "s3:GetBucketPolicy"),
    ],
)
def test_refusal_names_the_permission(s3: Any, operation: str, permission: str) -> None:
    def refuse(**_: Any) -> None:
        denied = {"Error": {"Code": "AccessDenied", "Message": "not you"}}
        raise s3.exceptions.ClientError(denied, operation)

    create(s3, "here")
    s3.meta.events.register(f"before-send.s3.{operation}", refuse)

    with pytest.raises(AwsRefusal, match=permission):
        fetch_bucket_protection(s3, "here")
