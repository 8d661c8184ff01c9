"""Emptying a bucket: what S3 fails to delete is tried again, what it refuses is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.buckets import count_contents, empty_bucket
from launcher.failure_modes.model import AwsRefusal

KEY = {"Key": "model", "VersionId": "v1"}


@pytest.fixture
def s3() -> Any:
    return boto3.client("s3", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b")


@pytest.fixture
def stub(s3: Any) -> Iterator[Stubber]:
    with Stubber(s3) as stub:
        yield stub


def deletes(stub: Stubber, *codes: str) -> None:
    errors = [{**KEY, "Code": code, "Message": "because"} for code in codes]
    wanted = {"Bucket": "b", "Delete": {"Objects": [KEY], "Quiet": True}}
    stub.add_response("delete_objects", {"Errors": errors} if errors else {}, wanted)


def test_what_s3_failed_to_delete_is_tried_again(s3: Any, stub: Stubber) -> None:
    stub.add_response("list_object_versions", {"Versions": [KEY]}, {"Bucket": "b"})
    deletes(stub, "SlowDown")
    deletes(stub)
    stub.add_response("list_multipart_uploads", {}, {"Bucket": "b"})
    seen: list[int] = []
    empty_bucket(s3, "b", seen.append)
    stub.assert_no_pending_responses()
    assert seen == [1]


@pytest.mark.parametrize("codes", [["AccessDenied"], ["InternalError"] * 3])
def test_what_is_not_deleted_is_named(s3: Any, stub: Stubber, codes: list[str]) -> None:
    stub.add_response("list_object_versions", {"Versions": [KEY]}, {"Bucket": "b"})
    for code in codes:
        deletes(stub, code)
    with pytest.raises(AwsRefusal, match=f"1 of the objects of the bucket b .* model: {codes[0]}: because"):
        empty_bucket(s3, "b")


def test_a_bucket_that_is_gone_holds_nothing_to_count(s3: Any, stub: Stubber) -> None:
    stub.add_client_error("list_object_versions", "NoSuchBucket", http_status_code=404)
    assert count_contents(s3, "b") is None
