"""A bucket of the account, as plain data: whether and where it is, and how it is protected."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.account.aws import aws_errors

_ABSENT = frozenset({"404", "NoSuchBucket"})
_ELSEWHERE = frozenset(
    {"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_NOT_SET = frozenset(
    {
        "ServerSideEncryptionConfigurationNotFoundError",
        "NoSuchPublicAccessBlockConfiguration",
        "NoSuchBucketPolicy",
    }
)
_BLOCKS = ("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets")


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


@dataclass(frozen=True, slots=True)
class BucketProtection:
    """How a bucket is protected.

    `encryption` is `AES256`, `aws:kms` or `aws:kms:dsse`, None where the bucket sets nothing (S3 then
    uses AES256); `tls_only` says whether its policy denies every request that is not encrypted.
    """

    name: str
    encryption: str | None
    kms_key_arn: str | None
    versioned: bool
    public_access_blocked: bool
    tls_only: bool


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
    return parse_bucket_encryption(
        _ask(name, "GetEncryptionConfiguration", s3.get_bucket_encryption, s3.exceptions.ClientError)
    )


def fetch_bucket_protection(s3: Any, name: str) -> BucketProtection:
    """Encryption, versioning, public access and transport of a bucket that exists.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """

    def ask(permission: str, call: Callable[..., Mapping[str, Any]]) -> Mapping[str, Any]:
        return _ask(name, permission, call, s3.exceptions.ClientError)

    encryption = ask("GetEncryptionConfiguration", s3.get_bucket_encryption)
    versioning = ask("GetBucketVersioning", s3.get_bucket_versioning)
    public_access = ask("GetBucketPublicAccessBlock", s3.get_public_access_block)
    policy = ask("GetBucketPolicy", s3.get_bucket_policy)
    return parse_bucket_protection(name, encryption, versioning, public_access, policy)


def parse_bucket_encryption(answer: Mapping[str, Any]) -> BucketEncryption:
    """The encryption from S3's answer; an empty one means that nothing is set."""
    rules = answer.get("ServerSideEncryptionConfiguration", {}).get("Rules", ())
    default: Mapping[str, Any] = next(
        (rule.get("ApplyServerSideEncryptionByDefault", {}) for rule in rules), {}
    )
    return BucketEncryption(default.get("SSEAlgorithm"), default.get("KMSMasterKeyID"))


def parse_bucket_protection(
    name: str,
    encryption: Mapping[str, Any],
    versioning: Mapping[str, Any],
    public_access: Mapping[str, Any],
    policy: Mapping[str, Any],
) -> BucketProtection:
    """The protection from four answers of S3; an empty one means that nothing is set."""
    default = parse_bucket_encryption(encryption)
    blocks = public_access.get("PublicAccessBlockConfiguration", {})
    return BucketProtection(
        name=name,
        encryption=default.algorithm,
        kms_key_arn=default.kms_key_arn,
        versioned=versioning.get("Status") == "Enabled",
        public_access_blocked=all(blocks.get(block, False) for block in _BLOCKS),
        tls_only=_denies_plain_http(json.loads(policy.get("Policy", "{}"))),
    )


def _ask(
    name: str, permission: str, call: Callable[..., Mapping[str, Any]], refused: type[Exception]
) -> Mapping[str, Any]:
    """The answer about one setting of a bucket; empty where it is not set."""
    with aws_errors(f"look at the protection of the bucket {name} (s3:{permission})"):
        try:
            return call(Bucket=name)
        except refused as error:
            if error.response["Error"]["Code"] in _NOT_SET:  # type: ignore[attr-defined]
                return {}
            raise


def _denies_plain_http(policy: Mapping[str, Any]) -> bool:
    statements = policy.get("Statement", ())
    for each in [statements] if isinstance(statements, Mapping) else statements:
        insecure = each.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport")
        everybody = each.get("Principal") in ("*", {"AWS": "*"}, {"AWS": ["*"]})
        actions = each.get("Action", ())
        everything = "s3:*" in ([actions] if isinstance(actions, str) else actions)
        if each.get("Effect") == "Deny" and everybody and everything and str(insecure).lower() == "false":
            return True
    return False


def _region(answer: Mapping[str, Any]) -> str | None:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region: str | None = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return region
