"""The bucket of the code, with the policy that is deployed: code gets there, and stays what it is."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from botocore.exceptions import ClientError
from constructs.training_buckets import TrainingBuckets
from moto import mock_aws

from launcher.backends.sagemaker import upload as transfers
from launcher.backends.sagemaker.upload import upload_code
from launcher.planning.training_plan import SourcePackage
from launcher.source.packaging import SOURCE_NAME, package_digest
from launcher.source.tree import read_source
from tests.emulator.buckets import emulated_buckets
from tests.emulator.iam_policy import flat
from tests.stacks.synthesis import new_stack, resources_of, template_of

BUCKET = "our-code"
Attack = Callable[[Any, str], Any]


@pytest.fixture(scope="module")
def policy() -> str:
    stack = new_stack()
    TrainingBuckets(stack, "Buckets", removal_policy=cdk.RemovalPolicy.RETAIN)
    template = template_of(stack)
    (bucket,) = [name for name in resources_of(template, "AWS::S3::Bucket") if name.startswith("BucketsCode")]
    (document,) = [
        each["Properties"]["PolicyDocument"]
        for each in resources_of(template, "AWS::S3::BucketPolicy").values()
        if each["Properties"]["Bucket"]["Ref"] == bucket
    ]
    return json.dumps(flat(document, {f"{bucket}.Arn": f"arn:aws:s3:::{BUCKET}"}))


@pytest.fixture
def s3(policy: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws(), emulated_buckets():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        s3.put_bucket_policy(Bucket=BUCKET, Policy=policy)
        yield s3


@pytest.fixture
def package(tmp_path: Path) -> SourcePackage:
    (tmp_path / "train.py").write_text("print('ours')\n")
    return package_of(tmp_path)


def package_of(folder: Path) -> SourcePackage:
    source = read_source(folder, "train.py")
    return SourcePackage(source, f"s3://{BUCKET}/code/{package_digest(str(source.digest), SOURCE_NAME)}")


def put(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"EVIL", Metadata={"slipway-code": key.split("/")[1]})


def put_where_nothing_lies(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"EVIL", IfNoneMatch="*")


def put_in_parts(s3: Any, key: str, **condition: str) -> None:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    part = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    tag = s3.upload_part(**part, PartNumber=1, Body=b"EVIL")["ETag"]
    s3.complete_multipart_upload(
        **part, MultipartUpload={"Parts": [{"ETag": tag, "PartNumber": 1}]}, **condition
    )


def put_in_parts_where_nothing_lies(s3: Any, key: str) -> None:
    put_in_parts(s3, key, IfNoneMatch="*")


def copy(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key="elsewhere", Body=b"EVIL")
    s3.copy_object(Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": "elsewhere"})


@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        (put, "AccessDenied"),
        (put_where_nothing_lies, "PreconditionFailed"),
        (put_in_parts, "AccessDenied"),
        (put_in_parts_where_nothing_lies, "PreconditionFailed"),
        (copy, "AccessDenied"),
    ],
)
@pytest.mark.parametrize("name", ["source.tar.gz", "slipway.pyz"])
def test_nobody_can_replace_code(
    s3: Any, package: SourcePackage, name: str, attack: Attack, answer: str
) -> None:
    upload_code(s3, package)
    key = f"code/{package.digest}/{name}"
    before = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with pytest.raises(ClientError, match=answer):
        attack(s3, key)
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == before


@pytest.mark.parametrize("part_bytes", [transfers.PART_BYTES, 5 * 1024 * 1024], ids=["whole", "in parts"])
def test_the_launcher_gets_its_code_there(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(transfers, "PART_BYTES", part_bytes)
    (tmp_path / "train.py").write_bytes(os.urandom(6 * 1024 * 1024))
    upload_code(s3, package_of(tmp_path))
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 2


def test_other_objects_of_the_bucket_may_be_replaced(s3: Any) -> None:
    for body in (b"1", b"2"):
        s3.put_object(Bucket=BUCKET, Key="elsewhere", Body=body)
    assert s3.get_object(Bucket=BUCKET, Key="elsewhere")["Body"].read() == b"2"
