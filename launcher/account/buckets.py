"""A bucket of the account, as plain data: whether and where it is, and how it is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.errors import aws_errors

_ABSENT = frozenset({"404", "NoSuchBucket"})
_ELSEWHERE = frozenset(
    {"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_NOT_SET = "ServerSideEncryptionConfigurationNotFoundError"


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket that exists, and its region."""

    name: str
    region: str


@dataclass(frozen=True, slots=True)
class BucketEncryption:
    """How what is put into a bucket is encrypted where the writer says nothing.

    `algorithm` is `AES256`, `aws:kms` or `aws:kms:dsse`, None where the bucket sets nothing (S3 then
    uses AES256).
    """

    algorithm: str | None
    kms_key_arn: str | None


def fetch_bucket(s3: Any, name: str) -> Bucket | None:
    """The bucket of that name with its region, also if it is another than the client's; None if none.

    Raises AwsRefusal where AWS refuses, as it does for the buckets of others, or cannot be reached.
    """
    with aws_errors(f"look at the bucket {name} (s3:ListBucket)"):
        try:
            answer = s3.head_bucket(Bucket=name)
        except s3.exceptions.ClientError as error:
            code, region = error.response["Error"]["Code"], _region(error.response)
            if code in _ABSENT:
                return None
            if code in _ELSEWHERE and region is not None:
                return Bucket(name, region)
            raise
    return Bucket(name, _region(answer) or s3.meta.region_name)


def fetch_bucket_encryption(s3: Any, name: str) -> BucketEncryption:
    """The default encryption of a bucket that exists.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the encryption of the bucket {name} (s3:GetEncryptionConfiguration)"):
        try:
            return parse_bucket_encryption(s3.get_bucket_encryption(Bucket=name))
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != _NOT_SET:
                raise
    return BucketEncryption(None, None)


def parse_bucket_encryption(answer: Mapping[str, Any]) -> BucketEncryption:
    """The encryption from S3's answer; an empty one means that nothing is set."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    default: Mapping[str, Any] = next(
        (rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in rules), {}
    )
    return BucketEncryption(default.get("SSEAlgorithm"), default.get("KMSMasterKeyID"))


def _region(answer: Mapping[str, Any]) -> str | None:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region: str | None = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return region
