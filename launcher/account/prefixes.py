"""A place in S3, as plain data: what lies there, as far as one call tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.text.uris import split_uri

MOST_LISTED = 1000
"""What one answer holds at most (S3 API reference, ListObjectsV2, MaxKeys)."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """A place in S3 that the job reads.

    `objects` and `size_bytes` are those of the first objects there, in the order of their keys, at most
    MOST_LISTED; with `more` there are others, and both are lower bounds.
    """

    uri: str
    objects: int
    size_bytes: int = 0
    more: bool = False


def fetch_prefix(s3: Any, uri: str) -> Prefix:
    """What lies at a place, by one call; nothing where there is no such bucket.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    bucket, key = split_uri(uri)
    with aws_errors(f"look at {uri} (s3:ListBucket)"):
        try:
            answer = s3.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=MOST_LISTED)
        except s3.exceptions.NoSuchBucket:
            return Prefix(uri, 0)
    listed = answer.get("Contents", ())
    return Prefix(uri, len(listed), sum(each["Size"] for each in listed), answer.get("IsTruncated", False))
