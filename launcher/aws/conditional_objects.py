"""Objects of S3 that are written under conditions: once, or only over what one has read.

S3 takes a second object of the same key only where the condition holds (Amazon S3 user guide,
conditional-writes), so that of two writers at once one writes and the other learns of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.aws.errors import answers

_UNMET = (409, 412)
"""Status of an answer to a write whose condition does not hold; 409 tells that another conditional write was
under way (Amazon S3 API reference, PutObject)."""


class ConditionalObjects:
    """The objects below a prefix of a bucket; the client is boto3's for S3.

    `owner` is the account that the bucket must belong to, where that is known. All methods raise AwsRefusal
    where AWS refuses and Outage where it does not answer.
    """

    def __init__(self, s3: Any, bucket: str, prefix: str, owner: str | None = None) -> None:
        self._s3, self.bucket, self.prefix = s3, bucket, prefix
        self._expected = {} if owner is None else {"ExpectedBucketOwner": owner}

    def uri(self, name: str) -> str:
        """Where an object is."""
        return f"s3://{self.bucket}/{self.prefix}{name}"

    def read(self, name: str, most: int) -> tuple[bytes, str] | None:
        """The first `most` bytes of an object, and its ETag; None where there is none."""
        with answers(f"read {self.uri(name)} (s3:GetObject)"):
            try:
                found = self._s3.get_object(Bucket=self.bucket, Key=self.prefix + name, **self._expected)
                return found["Body"].read(most), str(found["ETag"])
            except self._s3.exceptions.NoSuchKey:
                return None

    def write_new(self, name: str, body: bytes, kind: str = "application/json") -> str | None:
        """Write an object that is not there yet; its ETag, None where there is one."""
        return self._write(name, body, {"IfNoneMatch": "*", "ContentType": kind})

    def write_over(self, name: str, body: bytes, etag: str) -> str | None:
        """Write over an object that is still the one with that ETag; the new one's, None where it is not."""
        return self._write(name, body, {"IfMatch": etag, "ContentType": "application/json"})

    def folders(self) -> list[str]:
        """The names of the folders below the prefix."""
        with answers(f"list {self.uri('')} (s3:ListBucket)"):
            pages = self._s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.prefix, Delimiter="/", **self._expected
            )
            return [
                each["Prefix"].removeprefix(self.prefix).rstrip("/")
                for page in pages
                for each in page.get("CommonPrefixes", ())
            ]

    def _write(self, name: str, body: bytes, conditions: Mapping[str, str]) -> str | None:
        from botocore.exceptions import ClientError

        with answers(f"write {self.uri(name)} (s3:PutObject)"):
            try:
                written = self._s3.put_object(
                    Bucket=self.bucket, Key=self.prefix + name, Body=body, **conditions, **self._expected
                )
            except ClientError as error:
                if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in _UNMET:
                    return None
                raise
        return str(written["ETag"])
