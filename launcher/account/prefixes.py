"""A place in S3, as plain data: what lies there, as far as one call tells."""

from __future__ import annotations

from dataclasses import dataclass

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
