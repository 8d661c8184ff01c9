"""Places in S3: what one call tells of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.facts import MOST_LISTED, Prefix
from launcher.account.questions.ask_storage import fetch_prefix
from launcher.failure_modes.model import AwsRefusal
from tests.emulator.faults import DENIED_S3, inject


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        made = boto3.client("s3", region_name="us-west-2")
        made.create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
        yield made


def test_objects_and_their_bytes_are_counted_below_the_place_alone(s3: Any) -> None:
    for key, body in (("train/1", b"12345"), ("train/2", b"123"), ("evals/1", b"1234567")):
        s3.put_object(Bucket="data", Key=key, Body=body)

    assert fetch_prefix(s3, "s3://data/train") == Prefix("s3://data/train", 2, 8, more=False)
    assert fetch_prefix(s3, "s3://data") == Prefix("s3://data", 3, 15, more=False)


@pytest.mark.parametrize("uri", ["s3://data/train", "s3://nowhere/train"])
def test_an_empty_place_and_a_missing_bucket_hold_nothing(s3: Any, uri: str) -> None:
    assert fetch_prefix(s3, uri) == Prefix(uri, 0, 0, more=False)


def test_one_call_says_that_there_is_more(s3: Any) -> None:
    answer = {"Contents": [{"Key": "train/1", "Size": 7}], "IsTruncated": True, "NextContinuationToken": "t"}
    with Stubber(s3) as stubbed:
        asked = {"Bucket": "data", "Prefix": "train", "MaxKeys": MOST_LISTED}
        stubbed.add_response("list_objects_v2", answer, asked)

        assert fetch_prefix(s3, "s3://data/train") == Prefix("s3://data/train", 1, 7, more=True)


def test_refusal_names_the_place_and_the_permission(s3: Any) -> None:
    inject(s3, "ListObjectsV2", DENIED_S3)

    with pytest.raises(AwsRefusal, match=r"look at s3://data/train \(s3:ListBucket\)"):
        fetch_prefix(s3, "s3://data/train")
