"""The code's way to S3: under a key made of its content, so that the same code is sent once."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.source.packaging import BOOT_NAME, build_boot, build_source, package_digest
from launcher.text.uris import split_uri

if TYPE_CHECKING:
    from launcher.planning.training_plan import SourcePackage

FRESH_DAYS = 45
"""Code that lies on S3 for longer is sent again: the cluster's bucket deletes it after 90 days, and a job
may wait and retry for weeks before it reads it."""

PART_BYTES = 16 * 1024 * 1024
"""Larger files go in parts of this size; 10,000 of them are 160 GB."""

_MARK = "slipway-code"
"""The object's metadata that holds the digest: an object of our key that somebody else wrote has none."""


def upload_code(s3: Any, package: SourcePackage, on_progress: OnProgress | None = None) -> None:
    """Bring the plan's code to its prefix; what lies there already is not sent again.

    Each object appears whole or not at all, so that a failure leaves nothing that a job could read by
    mistake. Raises SourceError where the source cannot be packed, BackendError where it is no longer what was
    planned, AwsRefusal where AWS refuses.
    """
    bucket, prefix = split_uri(package.s3_uri)
    names = [package.archive, *([BOOT_NAME] if package.with_boot else [])]
    keys = {name: f"{prefix}/{name}" for name in names}
    missing = [name for name in names if not _is_there(s3, bucket, keys[name], package.digest)]
    if not missing:
        if on_progress is not None:
            on_progress(Progress("the code is on S3 already"))
        return
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        files = [_build(package, name, Path(folder, name)) for name in missing]
        counter = ByteCounter("upload the code", sum(file.stat().st_size for file in files), on_progress)
        for file in files:
            with aws_errors(f"upload the code to {package.s3_uri}"):
                _send(s3, file, bucket, keys[file.name], package.digest, counter)


def transfer_config() -> Any:
    """How boto3 moves files and copies objects: in parts where they are large, several at once."""
    from boto3.s3.transfer import TransferConfig

    return TransferConfig(multipart_threshold=PART_BYTES, multipart_chunksize=PART_BYTES)


class ByteCounter:
    """Adds up what boto3's threads say they have moved, and tells it on."""

    def __init__(self, step: str, total: int, on_progress: OnProgress | None) -> None:
        self._step = step
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._tell: Callable[[Progress], None] = on_progress or (lambda _: None)

    def __call__(self, moved: int) -> None:
        """`moved` bytes more; a part that is sent again is taken back before, as a negative number."""
        with self._lock:
            self._done += moved
            self._tell(Progress(self._step, self._done, self._total))


def _is_there(s3: Any, bucket: str, key: str, digest: str) -> bool:
    """Whether the object is ours, of this content, and will stay.

    Without permission to look, or to list (S3 then answers 403 for what is not there), it counts as
    missing: the upload itself needs neither.
    """
    from botocore.exceptions import ClientError

    with aws_errors(f"look for the code in the bucket {bucket}"):
        try:
            found = s3.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (403, 404):
                return False
            raise
    written: datetime = found["LastModified"]
    fresh = datetime.now(UTC) - written < timedelta(days=FRESH_DAYS)
    return fresh and bool(found.get("Metadata", {}).get(_MARK) == digest)


def _send(s3: Any, file: Path, bucket: str, key: str, digest: str, counter: ByteCounter) -> None:
    """Upload a file in parts where it is large; boto3 takes the parts back where one fails."""
    from boto3.exceptions import S3UploadFailedError

    extra = {"ChecksumAlgorithm": "SHA256", "Metadata": {_MARK: digest}}
    try:
        s3.upload_file(str(file), bucket, key, ExtraArgs=extra, Callback=counter, Config=transfer_config())
    except S3UploadFailedError as error:
        # What AWS said is its context; the error itself only repeats it, with the temporary file's name.
        raise error.__context__ or error from None


def _build(package: SourcePackage, name: str, path: Path) -> Path:
    try:
        if name == BOOT_NAME:
            build_boot(path)
        elif package_digest(build_source(package.source, path), name) != package.digest:
            raise BackendError(
                f"the code in {package.source.folder} is no longer what was planned.",
                "Launch again, and leave the files as they are meanwhile.",
            )
    except OSError as error:
        raise BackendError(
            f"the code cannot be packed in {path.parent.parent}: {error.strerror or error}.",
            "Make room there, or set TMPDIR to a folder with room.",
        ) from error
    return path
