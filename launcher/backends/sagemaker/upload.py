"""The code's way to S3: under a key made of its content, where it is written once and stays."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.sagemaker.stored_code import check_stored, is_stored
from launcher.backends.sagemaker.transfers import ByteCounter, transfer_config
from launcher.source.packaging import BOOT_NAME, build_boot, build_source, package_digest
from launcher.text.uris import split_uri

if TYPE_CHECKING:
    from launcher.planning.training_plan import SourcePackage

_TRIES = 3
_CREATING = ("PutObject", "CompleteMultipartUpload")
"""The operations that create an object of what was sent."""


def upload_code(s3: Any, package: SourcePackage, on_progress: OnProgress | None = None) -> None:
    """Bring the plan's code to its prefix; what lies there already is compared, and not sent again.

    Each object appears whole or not at all, so that a failure leaves nothing that a job could read by
    mistake, and none is ever replaced. Raises SourceError where the source cannot be packed or is no longer
    what was planned, BackendError where something else lies under its key, AwsRefusal where AWS refuses.
    """
    bucket, prefix = split_uri(package.s3_uri)
    names = [package.archive, *([BOOT_NAME] if package.with_boot else [])]
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        files = {f"{prefix}/{name}": _build(package, Path(folder, name)) for name in names}
        missing = {key: file for key, file in files.items() if not is_stored(s3, bucket, key, file)}
        if not missing:
            if on_progress is not None:
                on_progress(Progress("the code is on S3 already"))
            return
        total = sum(file.stat().st_size for file in missing.values())
        counter = ByteCounter("upload the code", total, on_progress)
        for key, file in missing.items():
            with aws_errors(f"upload the code to {package.s3_uri}"):
                _create(s3, bucket, key, file, counter)


def _create(s3: Any, bucket: str, key: str, file: Path, counter: ByteCounter) -> None:
    """Upload a file where nothing lies; where something does, it must be the same.

    Source: Amazon S3 user guide, conditional-writes (412: there is one; 409: two at once, to be repeated).
    """
    from botocore.exceptions import ClientError

    callback: ByteCounter | None = counter
    for tries_left in reversed(range(_TRIES)):
        try:
            return _send(s3, bucket, key, file, callback)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == 412:
                return check_stored(s3, bucket, key, file)
            if status != 409 or not tries_left:
                raise
            callback = None  # it has counted these bytes


def _send(s3: Any, bucket: str, key: str, file: Path, callback: ByteCounter | None) -> None:
    """Upload a file in parts where it is large; boto3 takes the parts back where one fails."""
    from boto3.exceptions import S3UploadFailedError

    extra = {"ChecksumAlgorithm": "SHA256"}
    try:
        with _only_where_nothing_lies(s3):
            s3.upload_file(
                str(file), bucket, key, ExtraArgs=extra, Callback=callback, Config=transfer_config()
            )
    except S3UploadFailedError as error:
        # What AWS said is its context; the error itself only repeats it, with the temporary file's name.
        raise error.__context__ or error from None


@contextmanager
def _only_where_nothing_lies(s3: Any) -> Iterator[None]:
    """Let what creates an object be refused where there is one; boto3's transfers know no such argument."""

    def condition(params: dict[str, Any], **_: Any) -> None:
        params["IfNoneMatch"] = "*"

    events = [f"provide-client-params.s3.{operation}" for operation in _CREATING]
    for event in events:
        s3.meta.events.register(event, condition)
    try:
        yield
    finally:
        for event in events:
            s3.meta.events.unregister(event, condition)


def _build(package: SourcePackage, path: Path) -> Path:
    try:
        if path.name == BOOT_NAME:
            build_boot(path)
        else:
            build_source(package.source, path)
    except OSError as error:
        raise BackendError(
            f"the code cannot be packed in {path.parent.parent}: {error.strerror or error}.",
            "Make room there, or set TMPDIR to a folder with room.",
        ) from error
    # What is written now stays under its key: it must be what the key was made of.
    if package_digest(str(package.source.digest), package.archive) != package.digest:
        raise BackendError(
            "the package that starts the job in its container is no longer what was planned.",
            "Launch again, and leave the launcher's own files as they are meanwhile.",
        )
    return path
