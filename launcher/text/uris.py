"""S3 URIs and their parts."""

from __future__ import annotations

from typing import Final

BUCKET_NAME: Final = r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
"""What a bucket's name looks like (S3 user guide, bucketnamingrules)."""


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the key of an S3 URI; the key is empty where the URI is a bucket's alone."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
