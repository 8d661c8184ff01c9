"""`checkpoint.resume_from`: the newest complete checkpoint goes to the new job's own prefix first.

The new job downloads what it finds there when it starts, and never shares a prefix with another job.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.sagemaker.checkpoint_choice import (
    MANIFEST,
    POINTERS,
    CheckpointChoice,
    StoredObject,
    choose_checkpoint,
    is_managed,
)
from launcher.backends.sagemaker.transfers import ByteCounter, transfer_config
from launcher.text.uris import split_uri

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

COPIES_AT_ONCE = 8

_POINTER_BYTES = 1024
"""A pointer's text is a name; more of it is something else."""

_MANIFEST_BYTES = 32 * 1024 * 1024
_MOST_MANIFESTS = 20
"""A manager keeps three checkpoints; its own bound of a manifest is the same."""


def copy_checkpoint(
    sagemaker: Any, s3: Any, reference: str, job: RequestView, on_progress: OnProgress | None = None
) -> None:
    """Copy the newest complete checkpoint to where `job` keeps its own.

    `reference` is the name of a training job or an S3 URI. S3 copies by itself, nothing passes through
    this machine. Copying again gives the same. Raises BackendError where there is no checkpoint, the other
    job still writes, or the new job keeps none on S3; AwsRefusal where AWS refuses.
    """
    target = job.checkpoints.prefix
    if target is None:
        raise BackendError(
            "a job goes on from a copy of a checkpoint on S3, and this one keeps none there.",
            "Give `checkpoint.s3_uri`; on a file system let the script load the earlier job's directory.",
        )
    source = reference if reference.startswith("s3://") else _prefix_of_job(sagemaker, reference)
    bucket, prefix = split_uri(source.rstrip("/") + "/")
    choice = _newest(s3, source)
    if not choice.objects:
        raise BackendError(
            f"there is no checkpoint below {source} to resume from.",
            "Launch the job file to start from the beginning; where it has `checkpoint.resume_from`, correct "
            "that or leave it out.",
        )
    if on_progress is not None:
        on_progress(Progress(_choice_in_words(choice, source)))
    _copy(s3, bucket, prefix, target, choice, on_progress)


def has_checkpoint(s3: Any, job: RequestView) -> bool:
    """Whether a job, by its request or description, left a complete checkpoint on S3.

    Raises AwsRefusal where AWS refuses.
    """
    source = job.checkpoints.prefix
    return source is not None and bool(_newest(s3, source).objects)


def _prefix_of_job(sagemaker: Any, name: str) -> str:
    with aws_errors(f"describe the training job {name}, to resume from it"):
        job = sagemaker.describe_training_job(TrainingJobName=name)
    if job["TrainingJobStatus"] in ("InProgress", "Stopping"):
        raise BackendError(
            f"the training job {name} is {job['TrainingJobStatus']} and still writes its checkpoints: the "
            "newest could be half there.",
            "Stop it and wait for its end, or resume from another job.",
        )
    from launcher.planning.request_view import RequestView

    prefix = RequestView(job).checkpoints.prefix
    if prefix is None:
        raise BackendError(
            f"the training job {name} kept no checkpoints on S3.",
            "Launch the job file to start from the beginning, or with an S3 URI in `checkpoint.resume_from`.",
        )
    return prefix


def _newest(s3: Any, source: str) -> CheckpointChoice:
    bucket, prefix = split_uri(source.rstrip("/") + "/")
    with aws_errors(f"look for checkpoints below {source} (s3:ListBucket, s3:GetObject)"):
        objects = _objects_below(s3, bucket, prefix)
        pointers = _pointers(s3, bucket, prefix, objects)
        return choose_checkpoint(objects, pointers, _manifests(s3, bucket, prefix, objects))


def _objects_below(s3: Any, bucket: str, prefix: str) -> list[StoredObject]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [
        StoredObject(found["Key"].removeprefix(prefix), found["Size"])
        for page in pages
        for found in page.get("Contents", ())
        if found["Key"] != prefix
    ]


def _pointers(s3: Any, bucket: str, prefix: str, objects: list[StoredObject]) -> dict[str, str]:
    names = [each.name for each in objects if each.name in POINTERS and each.size <= _POINTER_BYTES]
    return {
        name: s3.get_object(Bucket=bucket, Key=prefix + name)["Body"].read().decode("utf-8", "replace")
        for name in names
    }


def _manifests(s3: Any, bucket: str, prefix: str, objects: list[StoredObject]) -> dict[str, str]:
    """The texts of the newest manifests of slipway.CheckpointManager, by their folders."""
    found = [each for each in objects if is_managed(each) and each.name.split("/")[1:] == [MANIFEST]]
    newest = sorted(found, key=lambda each: each.name, reverse=True)[:_MOST_MANIFESTS]
    return {
        each.name.split("/")[0]: s3.get_object(Bucket=bucket, Key=prefix + each.name)["Body"]
        .read()
        .decode("utf-8", "replace")
        for each in newest
        if each.size <= _MANIFEST_BYTES
    }


def _copy(
    s3: Any, bucket: str, prefix: str, target: str, choice: CheckpointChoice, on_progress: OnProgress | None
) -> None:
    to_bucket, to_prefix = split_uri(target.rstrip("/") + "/")
    counter = ByteCounter("copy the checkpoint", sum(each.size for each in choice.objects), on_progress)
    config = transfer_config()

    def copy(item: StoredObject) -> None:
        origin = {"Bucket": bucket, "Key": prefix + item.name}
        s3.copy(origin, to_bucket, to_prefix + item.name, Callback=counter, Config=config)

    with (
        aws_errors(f"copy the checkpoint to {target} (s3:GetObject, s3:PutObject)"),
        ThreadPoolExecutor(COPIES_AT_ONCE) as pool,
    ):
        try:
            # What says that a checkpoint is whole is there last.
            for last in (False, True):
                copies = [
                    pool.submit(copy, item)
                    for item in choice.objects
                    if (is_managed(item) and item.name.endswith(f"/{MANIFEST}")) == last
                ]
                for done in copies:
                    done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _choice_in_words(choice: CheckpointChoice, source: str) -> str:
    what = ", ".join(choice.names) or "everything"
    passed = f"; {', '.join(choice.incomplete)} is newer but not complete" if choice.incomplete else ""
    return f"resuming from {what} below {source}{passed}"
