"""What a bucket holds, and how it is emptied: every version, delete marker and unfinished upload."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from launcher.aws.bounded_calls import DaemonPool
from launcher.aws.errors import aws_errors
from launcher.failure_modes.model import AwsRefusal
from launcher.frozen import frozen

_AT_ONCE = 8
"""Batches that are deleted at the same time: 8,000 objects. S3 takes 3,500 deletions a second and prefix."""

_TRIES = 3
"""For objects that S3 failed to delete without a fault of ours."""

_PASSING = frozenset({"InternalError", "SlowDown"})

OnCount = Callable[[int], None]
"""Called with how many versions and markers there were so far, after each page or batch."""


@frozen
class BucketContents:
    """What a bucket holds: current objects, older versions, delete markers, unfinished uploads.

    `size` is in bytes, of all versions; the parts of unfinished uploads are not in it.
    """

    bucket: str
    objects: int = 0
    older_versions: int = 0
    delete_markers: int = 0
    uploads: int = 0
    size: int = 0


def count_contents(s3: Any, bucket: str, on_count: OnCount = lambda _: None) -> BucketContents | None:
    """Count what a bucket holds, a page of a thousand after the other; None where there is no such bucket.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    objects = older = markers = size = 0
    with aws_errors(f"count what the bucket {bucket} holds (s3:ListBucketVersions)"):
        try:
            for page in _version_pages(s3, bucket):
                versions = page.get("Versions", ())
                current = sum(bool(each["IsLatest"]) for each in versions)
                objects, older = objects + current, older + len(versions) - current
                markers += len(page.get("DeleteMarkers", ()))
                size += sum(each["Size"] for each in versions)
                on_count(objects + older + markers)
        except s3.exceptions.NoSuchBucket:
            return None
    return BucketContents(bucket, objects, older, markers, len(list(_uploads(s3, bucket))), size)


def empty_bucket(s3: Any, bucket: str, on_count: OnCount = lambda _: None) -> None:
    """Delete everything that a bucket holds; what is written into it meanwhile may stay.

    Raises AwsRefusal where AWS refuses, as it does for objects that are locked, or cannot be reached.
    """
    pool, done = DaemonPool(_AT_ONCE), 0
    under_way: deque[Future[int]] = deque()
    with aws_errors(f"list what the bucket {bucket} holds (s3:ListBucketVersions)"):
        for page in _version_pages(s3, bucket):
            both = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
            keys = [{"Key": each["Key"], "VersionId": each["VersionId"]} for each in both]
            if keys:
                under_way.append(pool.submit(_delete, s3, bucket, keys))
            # No more is listed ahead than can be under way: a bucket may hold a hundred million objects.
            while len(under_way) > _AT_ONCE:
                on_count(done := done + under_way.popleft().result())
    for each in under_way:
        on_count(done := done + each.result())
    for upload in _uploads(s3, bucket):
        with aws_errors(f"abort an upload into the bucket {bucket} (s3:AbortMultipartUpload)"):
            s3.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])


def stop_access_logs(s3: Any, bucket: str) -> None:
    """Let S3 deliver no more access logs of this bucket; what is on its way may still come.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"stop the access logs of the bucket {bucket} (s3:PutBucketLogging)"):
        s3.put_bucket_logging(Bucket=bucket, BucketLoggingStatus={})


def deny_writes(s3: Any, bucket: str) -> None:
    """Let nobody, S3's own delivery of logs included, write into this bucket any more.

    Access logs come up to hours late (Amazon S3 user guide, ServerLogs); a bucket that got one since it
    was emptied cannot be deleted. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"deny writing into the bucket {bucket} (s3:PutBucketPolicy)"):
        partition = s3.meta.partition
        statement = {
            "Sid": "SlipwayDeniesWrites",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:PutObject",
            "Resource": f"arn:{partition}:s3:::{bucket}/*",
        }
        # CloudFormation deletes the policy with the stack; nothing else of it is needed until then.
        policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        s3.put_bucket_policy(Bucket=bucket, Policy=policy)


def _version_pages(s3: Any, bucket: str) -> Iterator[dict[str, Any]]:
    yield from s3.get_paginator("list_object_versions").paginate(Bucket=bucket)


def _uploads(s3: Any, bucket: str) -> Iterator[dict[str, Any]]:
    with aws_errors(f"list the uploads into the bucket {bucket} (s3:ListBucketMultipartUploads)"):
        for page in s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket):
            yield from page.get("Uploads", ())


def _delete(s3: Any, bucket: str, keys: Sequence[dict[str, str]]) -> int:
    left = list(keys)
    for _ in range(_TRIES):
        with aws_errors(f"delete objects of the bucket {bucket} (s3:DeleteObjectVersion)"):
            answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": left, "Quiet": True})
        errors = answer.get("Errors", ())
        refused = [each for each in errors if each.get("Code") not in _PASSING]
        if refused:
            raise _not_deleted(bucket, refused)
        if not errors:
            return len(keys)
        left = [{name: each[name] for name in ("Key", "VersionId") if name in each} for each in errors]
    raise _not_deleted(bucket, errors)


def _not_deleted(bucket: str, errors: Sequence[dict[str, str]]) -> AwsRefusal:
    first = errors[0]
    return AwsRefusal(
        f"{len(errors)} of the objects of the bucket {bucket} could not be deleted; "
        f"the first is {first.get('Key')}: {first.get('Code')}: {first.get('Message')}",
        "Take away what holds them (a lock, a legal hold, a policy), then run it again.",
    )
