"""The code's way to S3: under a key made of its content, where it is written once and stays; and back."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tempfile
import threading
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from launcher.aws.errors import aws_errors
from launcher.backends.interface import BackendError, OnProgress, Progress
from launcher.source.archive import OnRead, read_packed
from launcher.source.folder_walk import SourceError
from launcher.source.packaging import BOOT_NAME, build_boot, build_source, package_digest, scratch_folder
from launcher.source.tree import SourceTree, StoredSource, make_packed_tree
from launcher.text.values import split_uri

if TYPE_CHECKING:
    from launcher.planning.training_plan import SourcePackage

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


_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class CodeObject:
    """An object of a plan's code: its place on S3, and what must lie there.

    `digest` is the SHA-256 of what it holds, decompressed where it is `compressed`, and `most_bytes` more
    than that can be. `build` writes it as a file and raises SourceError where that is no longer possible. It
    is copied from `origin` where it lies on S3 elsewhere.
    """

    bucket: str
    key: str
    digest: str
    most_bytes: int
    compressed: bool
    build: Callable[[], Path]
    origin: StoredSource | None = None

    @cached_property
    def file(self) -> Path:
        """The object as a file, built when it is first asked for. Raises SourceError as `build` does."""
        return self.build()


def is_stored(s3: Any, code: CodeObject) -> bool:
    """Whether the object is there already, and is ours.

    Raises BackendError where it is there and holds something else, AwsRefusal where AWS refuses. Without
    permission to look, or to list (S3 then answers 403 for what is not there), it counts as missing: an
    upload needs neither, and says itself where something lies there.
    """
    from botocore.exceptions import ClientError

    with aws_errors(f"look for the code in the bucket {code.bucket}"):
        try:
            found = _found(s3, code)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (403, 404):
                return False
            raise
    _check(s3, code, found)
    return True


def check_stored(s3: Any, code: CodeObject) -> None:
    """Check an object that is known to be there. Raises BackendError where it holds something else."""
    with aws_errors(f"compare s3://{code.bucket}/{code.key} with the code (s3:GetObject)"):
        found = _found(s3, code)
    _check(s3, code, found)


def _found(s3: Any, code: CodeObject) -> dict[str, Any]:
    found: dict[str, Any] = s3.head_object(Bucket=code.bucket, Key=code.key, ChecksumMode="ENABLED")
    return found


def _check(s3: Any, code: CodeObject, found: dict[str, Any]) -> None:
    if _has_our_checksum(code, found.get("ChecksumSHA256")):
        return
    # Another zlib gives other bytes for the same code, other launchers other parts, other tools no SHA-256,
    # and the files may have changed since. Nobody can write the object again, so that it must be read.
    if found["ContentLength"] <= code.most_bytes and _holds_our_code(s3, code):
        return
    size, written = f"{found['ContentLength']:,} bytes", f"{found['LastModified']:%Y-%m-%d %H:%M} UTC"
    raise BackendError(
        f"what lies at s3://{code.bucket}/{code.key} is not the code of this job, although its key says so: "
        f"{size}, written {written}. The job would have run what somebody else put there, so nothing was "
        "created.",
        "Find out who wrote it (the bucket's access log), let somebody who may delete it remove that object, "
        "and launch again. Changed code goes under another key.",
    )


def _has_our_checksum(code: CodeObject, checksum: str | None) -> bool:
    """Whether S3's SHA-256 is the file's: of the whole, or of its parts' digests, with their number.

    Source: Amazon S3 user guide, checking-object-integrity (composite checksums).
    """
    if checksum is None:
        return False
    try:
        file = code.file
    except SourceError:
        return False  # a further attempt runs the code of the first one, whatever became of the files
    with file.open("rb") as content:
        if "-" not in checksum:
            return checksum == _base64(hashlib.file_digest(content, "sha256").digest())
        parts = [hashlib.sha256(part).digest() for part in parts_of(content)]
    return checksum == f"{_base64(hashlib.sha256(b''.join(parts)).digest())}-{len(parts)}"


def _base64(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def _holds_our_code(s3: Any, code: CodeObject) -> bool:
    """Read the object and hash what it holds, no further than what our code may have."""
    from botocore.exceptions import BotoCoreError

    with aws_errors(f"compare s3://{code.bucket}/{code.key} with the code (s3:GetObject)"):
        body = s3.get_object(Bucket=code.bucket, Key=code.key)["Body"]
        digest, size = hashlib.sha256(), 0
        try:
            for chunk in _chunks(gzip.GzipFile(fileobj=body) if code.compressed else body):
                digest.update(chunk)
                size += len(chunk)
                if size > code.most_bytes:
                    return False
        except BotoCoreError:
            raise  # of the connection; some are OSErrors too
        except (OSError, EOFError, zlib.error):
            return False
        finally:
            body.close()
    return digest.hexdigest() == code.digest


def _chunks(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")


PART_BYTES = 16 * 1024 * 1024
"""Larger files go in parts of this size; 10,000 of them are 160 GB."""


def parts_of(file: BinaryIO) -> Iterator[bytes]:
    """The parts in which a file goes to S3."""
    return iter(lambda: file.read(PART_BYTES), b"")


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


def read_stored_source(
    s3: Any, uri: str, entry_point: str, wanted: Collection[str] = (), on_read: OnRead | None = None
) -> SourceTree:
    """The tree of the archive at a URI; one that is missing, or that no host should unpack, has problems.

    Nothing is written to this machine. Raises AwsRefusal where S3 refuses or the connection is lost.
    """
    from botocore.exceptions import ClientError

    bucket, key = split_uri(uri)
    with aws_errors(f"read the code at {uri} (s3:GetObject)"):
        try:
            found = s3.get_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                raise
            missing = SourceError(
                f"the source archive {uri} is not there.", "Upload it, or correct `code.source_dir`."
            )
            return SourceTree(
                Path(uri),
                entry_point,
                exists=True,
                has_entry_point=True,
                problems=(missing,),
                is_packed=True,
                stored=StoredSource(uri),
            )
        try:
            body = cast(BinaryIO, _Body(found["Body"]))
            content = read_packed(body, uri, Path(uri), int(found["ContentLength"]), on_read)
        except _ConnectionLost as lost:
            raise lost.__cause__ or lost from None
        finally:
            found["Body"].close()
    return replace(
        make_packed_tree(Path(uri), entry_point, wanted, content),
        stored=StoredSource(uri, str(found["ETag"])),
    )


class _ConnectionLost(Exception):
    """Why reading ended, in words that are not taken for the archive's fault."""


class _Body:
    """The object's content; botocore's errors of the connection, some of them OSErrors, are told apart."""

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int) -> bytes:
        from botocore.exceptions import BotoCoreError

        try:
            return bytes(self._body.read(size))
        except BotoCoreError as error:
            raise _ConnectionLost from error
