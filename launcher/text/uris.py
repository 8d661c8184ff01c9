"""URIs, taken apart."""

from __future__ import annotations


def split_uri(uri: str) -> tuple[str, str]:
    """The bucket and the key of an S3 URI; the key is empty where the URI is a bucket's alone."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key
