"""The storage's part of the live stage: the buckets that a job names, and what lies at its places in them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from launcher.account.buckets import Bucket, BucketEncryption, parse_bucket_encryption
from launcher.account.facts import Fact
from launcher.account.prefixes import MOST_LISTED, Prefix
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.wanted import Wanted
from launcher.aws.bucket_owners import naming_owners
from launcher.aws.errors import aws_errors
from launcher.text.uris import split_uri

_ABSENT = frozenset({"404", "NoSuchBucket"})
_ELSEWHERE = frozenset(
    {"301", "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
)
_NOT_SET = "ServerSideEncryptionConfigurationNotFoundError"


class StorageQuestions:
    """What is asked about a job's buckets and places on S3, and what comes of it.

    A bucket of another region is found as well: S3 tells where it is, and the SDK asks there.
    """

    def __init__(self, wanted: Wanted) -> None:
        s3, owners = Service("s3", wanted.region), wanted.bucket_owners
        self._buckets: dict[str, Question[Bucket | None]] = {
            name: s3.question(f"the bucket {name}", "s3:ListBucket", fetch_bucket, name, owners.get(name))
            for name in wanted.buckets
        }
        self._encryption: dict[str, Question[BucketEncryption]] = {
            name: s3.question(
                f"the encryption of the bucket {name}",
                "s3:GetEncryptionConfiguration",
                fetch_bucket_encryption,
                name,
                owners.get(name),
            )
            for name in wanted.buckets
        }
        self._prefixes: dict[str, Question[Prefix]] = {
            uri: s3.question(
                f"what lies at {uri}", "s3:ListBucket", fetch_prefix, uri, owners.get(split_uri(uri)[0])
            )
            for uri in wanted.looked_into
        }

    def questions(self) -> list[Question[Any]]:
        """All that is asked; nothing waits for an answer."""
        return [*self._buckets.values(), *self._encryption.values(), *self._prefixes.values()]

    def buckets(self, answers: Answers) -> dict[str, Fact[Bucket | None]]:
        """The buckets by their names; None for one that does not exist."""
        return {name: answers.of(question) for name, question in self._buckets.items()}

    def encryption(self, answers: Answers) -> dict[str, Fact[BucketEncryption]]:
        """The encryption of the buckets which exist, as far as is known."""
        found = {name: answers.of(question) for name, question in self._encryption.items()}
        return {
            name: each
            for name, each in found.items()
            if each is not None and answers.of(self._buckets[name]) is not None
        }

    def prefixes(self, answers: Answers) -> dict[str, Fact[Prefix]]:
        """What lies at each of the job's places."""
        found = {uri: answers.of(question) for uri, question in self._prefixes.items()}
        return {uri: each for uri, each in found.items() if each is not None}


def fetch_bucket(s3: Any, name: str, owner: str | None = None) -> Bucket | None:
    """The bucket of that name with its region, also if it is another than the client's; None if none.

    Raises AwsRefusal where AWS refuses, as it does for the buckets of others and of others than the `owner`
    (an account, where it is known), or cannot be reached.
    """
    with _naming(name, owner), aws_errors(f"look at the bucket {name} (s3:ListBucket)"):
        try:
            answer = s3.head_bucket(Bucket=name, **_expected(owner))
        except s3.exceptions.ClientError as error:
            code, region = error.response["Error"]["Code"], _region(error.response)
            if code in _ABSENT:
                return None
            if code in _ELSEWHERE and region is not None:
                return Bucket(name, region)
            raise
    return Bucket(name, _region(answer) or s3.meta.region_name)


def fetch_bucket_encryption(s3: Any, name: str, owner: str | None = None) -> BucketEncryption:
    """The default encryption of a bucket that exists, and belongs to the account `owner` if one is known.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    action = f"look at the encryption of the bucket {name} (s3:GetEncryptionConfiguration)"
    with _naming(name, owner), aws_errors(action):
        try:
            return parse_bucket_encryption(s3.get_bucket_encryption(Bucket=name, **_expected(owner)))
        except s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] != _NOT_SET:
                raise
    return BucketEncryption(None, None)


def fetch_prefix(s3: Any, uri: str, owner: str | None = None) -> Prefix:
    """What lies at a place, by one call; nothing where there is no such bucket.

    `owner` is the account of the bucket, where it is known. Raises AwsRefusal where AWS refuses or cannot
    be reached.
    """
    bucket, key = split_uri(uri)
    with _naming(bucket, owner), aws_errors(f"look at {uri} (s3:ListBucket)"):
        try:
            answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=MOST_LISTED, **_expected(owner))
        except s3.exceptions.NoSuchBucket:
            return Prefix(uri, 0)
    listed = answer.get("Contents", ())
    return Prefix(uri, len(listed), sum(each["Size"] for each in listed), answer.get("IsTruncated", False))


def _naming(bucket: str, owner: str | None) -> AbstractContextManager[None]:
    return naming_owners({bucket: owner} if owner else {})


def _expected(owner: str | None) -> dict[str, str]:
    return {"ExpectedBucketOwner": owner} if owner else {}


def _region(answer: Mapping[str, Any]) -> str | None:
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region: str | None = answer.get("BucketRegion") or headers.get("x-amz-bucket-region")
    return region
