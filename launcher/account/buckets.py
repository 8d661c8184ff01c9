"""A bucket of the account, as plain data: whether and where it is, and how it is encrypted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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


def parse_bucket_encryption(answer: Mapping[str, Any]) -> BucketEncryption:
    """The encryption from S3's answer; an empty one means that nothing is set."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    default: Mapping[str, Any] = next(
        (rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in rules), {}
    )
    return BucketEncryption(default.get("SSEAlgorithm"), default.get("KMSMasterKeyID"))
