"""The code's way to S3: under a key made of its content, where it is written once and stays."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.backends.sagemaker.stored_code import CodeObject, check_stored, is_stored
from launcher.backends.sagemaker.transfers import ByteCounter, transfer_config
from launcher.source.errors import SourceError
from launcher.source.packaging import BOOT_NAME, build_boot, build_source, package_digest
from launcher.source.scratch import scratch_folder
from launcher.text.uris import split_uri

if TYPE_CHECKING:
    from launcher.planning.training_plan import SourcePackage
    from launcher.source.tree import StoredSource

_TRIES = 3
_MOST_OF_GZIP = 16 * 1024
"""More than a gzip file has around what it holds, beside one per cent where that does not compress."""

_CREATING = ("PutObject", "CompleteMultipartUpload")
"""The operations that create an object of what was sent."""


def upload_code(s3: Any, package: SourcePackage, on_progress: OnProgress | None = None) -> None:
    """Bring the plan's code to its prefix; what lies there already is compared, and not sent again.

    Each object appears whole or not at all, so that a failure leaves nothing that a job could read by
    mistake, and none is ever replaced. Raises SourceError where the source cannot be packed or is no longer
    what was planned, BackendError where something else lies under its key, AwsRefusal where AWS refuses.
    """
    package.source.check()
    with ExitStack() as stack:
        with _packing():
            folder = stack.enter_context(scratch_folder())
        missing = [each for each in _objects(package, folder) if not is_stored(s3, each)]
        if not missing:
            if on_progress is not None:
                on_progress(Progress("the code is on S3 already"))
            return
        total = sum(each.file.stat().st_size for each in missing if each.origin is None)
        counter = ByteCounter("upload the code", total, on_progress)
        for each in missing:
            with aws_errors(f"upload the code to {package.s3_uri}"):
                _create(s3, each, counter)


def _objects(package: SourcePackage, folder: Path) -> Iterator[CodeObject]:
    """The objects of a plan's code; their files are built in the folder."""
    bucket, prefix = split_uri(package.s3_uri)
    source = package.source

    def build() -> Path:
        if source.stored is not None:
            raise SourceError(f"the code lies at {source.place} alone.", "Launch again.")
        with _packing():
            build_source(source, folder / package.archive)
        return folder / package.archive

    yield CodeObject(
        bucket,
        f"{prefix}/{package.archive}",
        str(source.digest),
        source.archive_bytes + source.archive_bytes // 100 + _MOST_OF_GZIP,
        compressed=True,
        build=build,
        origin=source.stored,
    )
    if package.with_boot:
        boot = folder / BOOT_NAME
        with _packing():
            build_boot(boot)
        # What is written stays under its key: it must be what the key was made of.
        if package_digest(str(source.digest), package.archive) != package.digest:
            raise BackendError(
                "the package that starts the job in its container is no longer what was planned.",
                "Launch again, and leave the launcher's own files as they are meanwhile.",
            )
        content = boot.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        yield CodeObject(
            bucket, f"{prefix}/{BOOT_NAME}", digest, len(content), compressed=False, build=lambda: boot
        )


def _create(s3: Any, code: CodeObject, counter: ByteCounter) -> None:
    """Upload the code where nothing lies; where something does, it must be the same.

    Source: Amazon S3 user guide, conditional-writes (412: there is one; 409: two at once, to be repeated).
    """
    from botocore.exceptions import ClientError

    callback: ByteCounter | None = counter
    for tries_left in reversed(range(_TRIES)):
        try:
            return _send(s3, code, callback) if code.origin is None else _copy(s3, code, code.origin)
        except ClientError as error:
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == 412:
                return check_stored(s3, code)
            if status != 409 or not tries_left:
                raise
            callback = None  # it has counted these bytes


def _copy(s3: Any, code: CodeObject, origin: StoredSource) -> None:
    """Let S3 copy the archive that was read, and no later one, to where nothing lies.

    Raises BackendError where there is a later one by now.
    """
    from botocore.exceptions import ClientError

    bucket, key = split_uri(origin.uri)
    try:
        s3.copy_object(
            Bucket=code.bucket,
            Key=code.key,
            CopySource={"Bucket": bucket, "Key": key},
            CopySourceIfMatch=origin.etag,
            IfNoneMatch="*",
            ChecksumAlgorithm="SHA256",
        )
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        # 412 is the answer to either condition.
        if status != 412 or is_stored(s3, code):
            raise
        raise BackendError(
            f"the code at {origin.uri} is no longer what was planned: it was written again meanwhile.",
            "Launch again.",
        ) from error


def _send(s3: Any, code: CodeObject, callback: ByteCounter | None) -> None:
    """Upload a file in parts where it is large; boto3 takes the parts back where one fails."""
    from boto3.exceptions import S3UploadFailedError

    extra = {"ChecksumAlgorithm": "SHA256"}
    try:
        with _only_where_nothing_lies(s3):
            s3.upload_file(
                str(code.file),
                code.bucket,
                code.key,
                ExtraArgs=extra,
                Callback=callback,
                Config=transfer_config(),
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


@contextmanager
def _packing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackendError(
            f"the code cannot be packed in {tempfile.gettempdir()}: {error.strerror or error}.",
            "Make room there, or set TMPDIR to a folder with room.",
        ) from error
