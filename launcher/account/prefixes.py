"""A place in S3, as plain data: whether anything lies there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.account.aws import aws_errors

_ENOUGH = 2
"""One key tells that the place is not empty; a second, that it is more than one object."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A place in S3 that the job reads; `objects` counts at most two of what lies there."""

    uri: str
    objects: int


def fetch_prefix(s3: Any, uri: str) -> Prefix:
    """What lies at a place, counted to two; nothing where there is no such bucket.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    bucket, key = split_uri(uri)
    with aws_errors(f"look at {uri} (s3:ListBucket)"):
        try:
            answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=_ENOUGH)
        except s3.exceptions.NoSuchBucket:
            return Prefix(uri, 0)
    return Prefix(uri, len(answer.get("Contents", ())))


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the key of an S3 URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
