"""`checkpoint.resume_from`: the newest complete checkpoint goes to the new job's own prefix first.

The new job downloads what it finds there when it starts, and never shares a prefix with another job.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import answers
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.sagemaker.creation import existing_state
from launcher.backends.sagemaker.upload import ByteCounter, transfer_config
from launcher.frozen import frozen
from launcher.text.values import split_uri

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

COPIES_AT_ONCE = 8

_POINTER_BYTES = 1024
"""A pointer's text is a name; more of it is something else."""

_MANIFEST_BYTES = 32 * 1024 * 1024
_MOST_MANIFESTS = 20
"""A manager keeps three checkpoints; its own bound of a manifest is the same."""


class CopyUnfinished(BackendError):
    """The time for a copy was over before all of it was there; the same copy goes on from what is."""


class LeftCheckpoint(StrEnum):
    """What a job left to go on from: nothing, only whole checkpoints of slipway.CheckpointManager, which is
    a place where another job may go on itself, or else one that has to be picked out and copied."""

    NOTHING = "nothing"
    WHOLE = "whole"
    TO_COPY = "to copy"


def copy_checkpoint(
    sagemaker: Any,
    s3: Any,
    reference: str,
    job: RequestView,
    on_progress: OnProgress | None = None,
    time_left: Callable[[], float] | None = None,
) -> None:
    """Copy the newest complete checkpoint to where `job` keeps its own.

    `reference` is the name of a training job or an S3 URI. S3 copies by itself, nothing passes through
    this machine. Copying again gives the same, and goes on where an earlier copy was cut short; where `job`
    is there already nothing is copied, as it may have written newer ones since, nor where it goes on in the
    place of the other job. `time_left` tells the seconds for it. Raises BackendError where there is no
    checkpoint, the other job still writes, or the new job keeps none on S3; CopyUnfinished when the time is
    over; AwsRefusal where AWS refuses.
    """
    target = job.checkpoints.prefix
    if target is None:
        raise BackendError(
            "a job goes on from a copy of a checkpoint on S3, and this one keeps none there.",
            "Give `checkpoint.s3_uri`; on a file system let the script load the earlier job's directory.",
        )
    if existing_state(sagemaker, "CreateTrainingJob", str(job.name)) is not None:
        return
    source = reference if reference.startswith("s3://") else _prefix_of_job(sagemaker, reference)
    copy_newest(s3, source, target, on_progress, time_left)


def copy_newest(
    s3: Any,
    source: str,
    target: str,
    on_progress: OnProgress | None = None,
    time_left: Callable[[], float] | None = None,
) -> None:
    """Copy the newest complete checkpoint below one S3 URI to below another; nothing where they are the same.

    Raises as `copy_checkpoint`.
    """
    bucket, prefix = split_uri(source.rstrip("/") + "/")
    if source.rstrip("/") == target.rstrip("/"):
        return
    choice = _newest(s3, source)
    if not choice.objects:
        raise BackendError(
            f"there is no checkpoint below {source} to resume from.",
            "Launch the job file to start from the beginning; where it has `checkpoint.resume_from`, correct "
            "that or leave it out.",
        )
    if on_progress is not None:
        on_progress(Progress(_choice_in_words(choice, source)))
    _copy(s3, bucket, prefix, target, choice, on_progress, time_left)


def left_checkpoint(s3: Any, job: RequestView) -> LeftCheckpoint:
    """What a job that has ended, by its request or description, left on S3 for another one.

    Raises AwsRefusal where AWS refuses.
    """
    source = job.checkpoints.prefix
    choice = None if source is None else _newest(s3, source)
    if choice is None or not choice.objects:
        return LeftCheckpoint.NOTHING
    whole = not choice.incomplete and all(map(_MANAGED.fullmatch, choice.names)) and bool(choice.names)
    return LeftCheckpoint.WHOLE if whole else LeftCheckpoint.TO_COPY


def _prefix_of_job(sagemaker: Any, name: str) -> str:
    with answers(f"describe the training job {name}, to resume from it"):
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
    with answers(f"look for checkpoints below {source} (s3:ListBucket, s3:GetObject)"):
        objects = _objects_below(s3, bucket, prefix)
        pointers = _pointers(s3, bucket, prefix, objects)
        return choose_checkpoint(objects, pointers, _manifests(s3, bucket, prefix, objects))


def _objects_below(s3: Any, bucket: str, prefix: str) -> list[StoredObject]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return [
        StoredObject(found["Key"].removeprefix(prefix), found["Size"], found["LastModified"].timestamp())
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
    s3: Any,
    bucket: str,
    prefix: str,
    target: str,
    choice: CheckpointChoice,
    on_progress: OnProgress | None,
    time_left: Callable[[], float] | None,
) -> None:
    to_bucket, to_prefix = split_uri(target.rstrip("/") + "/")
    with answers(f"look at what is below {target} (s3:ListBucket)"):
        there = {each.name: each for each in _objects_below(s3, to_bucket, to_prefix)}
    counter = ByteCounter("copy the checkpoint", sum(each.size for each in choice.objects), on_progress)
    config = transfer_config()

    def copy(item: StoredObject) -> None:
        copied = there.get(item.name)
        if copied is not None and copied.size == item.size and copied.written > item.written:
            counter(item.size)
            return
        if time_left is not None and time_left() <= 0:
            raise CopyUnfinished(f"the copy to {target} is not finished.", "It goes on with the next try.")
        origin = {"Bucket": bucket, "Key": prefix + item.name}
        s3.copy(origin, to_bucket, to_prefix + item.name, Callback=counter, Config=config)

    with (
        answers(f"copy the checkpoint to {target} (s3:GetObject, s3:PutObject)"),
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


POINTERS: Mapping[str, Callable[[str], str]] = {
    "latest": str.strip,
    "latest_checkpointed_iteration.txt": lambda text: f"iter_{text.strip():0>7}",
}
"""Files that name the newest complete checkpoint, and how their text becomes its name."""

MARKERS = frozenset({".metadata", "trainer_state.json", "_COMPLETE", "_SUCCESS"})
"""Files that a checkpoint's folder gets when all else is in it."""

_UNFINISHED = re.compile(
    r"(^|/)\.?tmp[-_.]|\.(tmp|temp|part|partial|incomplete|writing|saving)(/|$)|\.sagemaker-upload(ing|ed)$"
)
_RANK = re.compile(
    r"(rank|shard|host|node|algo|worker|process)s?[-_.=]?\d+|(?<!\d)\d+[-_]of[-_]\d+|__\d+_\d+\.distcp",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_MANAGED = re.compile(r"step-\d{12}-[0-9a-f]{8}")
"""A folder of slipway.CheckpointManager: step, and a token of the start that saved it."""

MANIFEST = "manifest.json"


@frozen
class StoredObject:
    """An object below the prefix: its name there, with slashes, its bytes, and when it was written, in
    seconds since the epoch by S3's clock."""

    name: str
    size: int
    written: float = 0.0


@frozen
class CheckpointChoice:
    """What to copy: the names of the checkpoint, all objects that go along, and newer names passed over."""

    names: Sequence[str]
    objects: Sequence[StoredObject]
    incomplete: Sequence[str] = ()


def choose_checkpoint(
    objects: Iterable[StoredObject],
    pointers: Mapping[str, str] | None = None,
    manifests: Mapping[str, str] | None = None,
) -> CheckpointChoice:
    """The newest complete checkpoint among the objects below a prefix.

    `pointers` holds the texts of the files in POINTERS that are there, `manifests` those of MANIFEST by the
    folder that each is in. What slipway.CheckpointManager saved counts where its manifest does and all its
    files are there with their sizes. Of other files a checkpoint is all that bears the
    same numbers in its top-level name, but for a rank's (`model-500.pt` with `optimizer-500.pt`); the
    highest numbers are the newest. Names that have their numbers to themselves (`resnet50.pt` beside
    `checkpoint-3.pt`) count as another series, and each series gives its newest. What has no number (a
    configuration, a pointer, `best.pt`) goes along.

    Complete is one that a pointer names or that holds a marker; where the series has no markers, one with
    as many files as any other of the series, for the newest may still have been written when the job ended.
    Files under the names of unfinished work are left out everywhere.
    """
    kept = [each for each in objects if not _UNFINISHED.search(each.name) and not each.name.endswith("/")]
    managed = _newest_managed([each for each in kept if is_managed(each)], manifests or {})
    kept = [each for each in kept if not is_managed(each)]
    pointed = {POINTERS[file](text) for file, text in (pointers or {}).items()}
    names = list(managed.names)
    chosen = [*(each for each in kept if not _numbers(each)), *managed.objects]
    passed = list(managed.incomplete)
    for steps in _series([each for each in kept if _numbers(each)]):
        newest_first = sorted(steps, reverse=True)
        complete = _complete(steps, pointed)
        step = next(step for step in newest_first if step in complete)
        names += sorted({_top(each) for each in steps[step]})
        chosen += steps[step]
        newer = newest_first[: newest_first.index(step)]
        passed += sorted({_top(each) for step in newer for each in steps[step]})
    return CheckpointChoice(names, chosen, passed)


def is_managed(item: StoredObject) -> bool:
    """Whether an object lies in a folder of slipway.CheckpointManager."""
    return "/" in item.name and _MANAGED.fullmatch(_top(item)) is not None


def _newest_managed(objects: Sequence[StoredObject], manifests: Mapping[str, str]) -> CheckpointChoice:
    """The newest of slipway.CheckpointManager's that is whole; its manifest is the last of the objects."""
    passed: list[str] = []
    for folder in sorted({_top(each) for each in objects}, reverse=True):
        there = {each.name: each for each in objects if _top(each) == folder}
        files = _files_of(manifests.get(folder, ""))
        found = [there.get(f"{folder}/{name}") for name, size in files.items()]
        whole = [
            each for each in found if each is not None and each.size == files[each.name[len(folder) + 1 :]]
        ]
        if files and len(whole) == len(files):
            return CheckpointChoice([folder], [*whole, there[f"{folder}/{MANIFEST}"]], passed)
        passed.append(folder)
    return CheckpointChoice([], [], passed)


def _files_of(manifest: str) -> dict[str, int]:
    """The names and sizes that a manifest tells; nothing where it is none.

    The resuming job reads it strictly (slipway/saving/stored_checkpoints.py) and verifies every file.
    """
    try:
        files = json.loads(manifest)["files"]
        return {str(each["name"]): int(each["bytes"]) for each in files}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


_Steps = dict[tuple[int, ...], list[StoredObject]]


def _series(objects: Iterable[StoredObject]) -> list[_Steps]:
    """The numbered objects by their numbers, in series that have numbers in common."""
    by_pattern: dict[str, _Steps] = defaultdict(lambda: defaultdict(list))
    for each in objects:
        by_pattern[_NUMBER.sub("#", _RANK.sub("*", _top(each)))][_numbers(each)].append(each)
    joined: list[_Steps] = []
    for steps in by_pattern.values():
        apart = []
        for other in joined:
            if steps.keys().isdisjoint(other):
                apart.append(other)
            else:
                steps = {step: [*other.get(step, ()), *steps.get(step, ())] for step in {**other, **steps}}
        joined = [*apart, steps]
    return joined


def _complete(steps: _Steps, pointed: Collection[str]) -> set[tuple[int, ...]]:
    """The steps of a series that are complete; there is always one."""
    named = {step for step, members in steps.items() if any(_top(each) in pointed for each in members)}
    marked = {step for step, members in steps.items() if any(map(_is_marker, members))}
    fullest = max(map(len, steps.values()))
    return named or marked or {step for step, members in steps.items() if len(members) == fullest}


def _top(item: StoredObject) -> str:
    return item.name.split("/")[0]


def _numbers(item: StoredObject) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(_RANK.sub("*", _top(item))))


def _is_marker(item: StoredObject) -> bool:
    _, slash, name = item.name.rpartition("/")
    return bool(slash) and name in MARKERS
