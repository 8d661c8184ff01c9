"""Where checkpoints are copied to and fetched from: a prefix on S3, or in a local run a folder of the job.

boto3 and s3transfer are in AWS's images; they are imported when a job that needs them starts.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from slipway.saving.stored_checkpoints import FILE_NAME, MAX_BYTES, put_file, step_of


class CheckpointPlace(Protocol):
    """Files under names with slashes. What a file's content is, is not seen before all of it is there."""

    progress: int
    """Grows while something is copied."""

    def sizes(self) -> dict[str, int]:
        """The bytes of all files by name. Raises, as the other questions do, what `cause_of` explains."""
        ...

    def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
        """Copy files there at once; what failed, by name. Gives up what is left when `until` says so."""
        ...

    def get(self, files: Mapping[str, Path]) -> dict[str, Exception]:
        """Copy files from there, each to its path with the time that it had; what failed, by name."""
        ...

    def text(self, name: str, most: int) -> bytes:
        """What a file holds. Raises ValueError where that is more than `most` bytes."""
        ...

    def changed(self, name: str) -> int | None:
        """When the file was changed that was put there, in nanoseconds; None where it is gone or unknown."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, in this order; what is not there is no error."""
        ...


def place_of(uri: str, region: str | None) -> CheckpointPlace:
    """The place behind `s3://bucket/prefix` or the path of a folder.

    Raises ImportError where it is on S3 and there is no boto3.
    """
    if uri.startswith("s3://"):
        return S3Place(uri, region)
    return Folder(Path(uri))


def is_relative_name(name: str) -> bool:
    """Whether a name found in a place leads to a file below a folder, wherever that is."""
    parts = name.split("/")
    return "\0" not in name and all(part not in ("", ".", "..") and len(part) < 256 for part in parts)


# A prefix on S3 as the place of checkpoints, by boto3's own transfer manager.


MOST_NAMES = 200_000
"""Objects below a prefix that are looked at: more are nothing that a job has saved."""

_CONNECT_SECONDS, _READ_SECONDS = 10, 60
_ATTEMPTS = 5
"""Per request; what fails after them is tried again as a whole, as long as the job has time."""

_TIME = "slipway-mtime"
"""In an object's metadata: when its file was changed, in nanoseconds."""

_LOOK_SECONDS = 0.02
_AT_ONCE = 64
"""Files that are handed to the transfer manager together, which works on ten parts at a time."""


class S3Place:
    """Objects below a prefix; see `CheckpointPlace`."""

    def __init__(self, uri: str, region: str | None) -> None:
        """Raises ImportError without boto3, and what boto3 raises for a region that is not known."""
        import boto3
        from botocore.config import Config

        self._bucket, _, prefix = uri[len("s3://") :].partition("/")
        self._prefix = f"{prefix.rstrip('/')}/" if prefix.rstrip("/") else ""
        self.progress = 0
        self._client = boto3.session.Session().client(
            "s3",
            region_name=region,
            config=Config(
                retries={"mode": "adaptive", "total_max_attempts": _ATTEMPTS},
                connect_timeout=_CONNECT_SECONDS,
                read_timeout=_READ_SECONDS,
                max_pool_connections=32,
            ),
        )

    def sizes(self) -> dict[str, int]:
        """The bytes of all objects by name. Raises ValueError where there are too many to be a job's."""
        found: dict[str, int] = {}
        pages = self._client.get_paginator("list_objects_v2")
        for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix):
            for one in page.get("Contents", ()):
                found[one["Key"][len(self._prefix) :]] = one["Size"]
            if len(found) > MOST_NAMES:
                raise ValueError(f"more than {MOST_NAMES} objects lie below the prefix")
        return {name: size for name, size in found.items() if name and not name.endswith("/")}

    def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
        """Upload files, their parts in parallel; what failed, by name."""

        def begin(manager: Any, name: str) -> Any:
            changed = files[name].stat().st_mtime_ns
            return manager.upload(
                str(files[name]),
                self._bucket,
                self._prefix + name,
                extra_args={"Metadata": {_TIME: str(changed)}},
                subscribers=[_BytesSent(self)],
            )

        return self._transferred(list(files), begin, until)

    def get(self, files: Mapping[str, Path]) -> dict[str, Exception]:
        """Download files, their parts in parallel; what failed, by name."""

        def begin(manager: Any, name: str) -> Any:
            files[name].parent.mkdir(parents=True, exist_ok=True)
            return manager.download(
                self._bucket, self._prefix + name, str(files[name]), subscribers=[_BytesSent(self)]
            )

        failed = self._transferred(list(files), begin, lambda: False)
        for name, file in files.items():
            changed = self.changed(name) if name not in failed else None
            if changed is not None:
                os.utime(file, ns=(changed, changed))
        return failed

    def text(self, name: str, most: int) -> bytes:
        """What an object holds."""
        answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)
        content: bytes = answer["Body"].read(most + 1)
        if len(content) > most:
            raise ValueError(f"{name} has more than {most} bytes")
        return content

    def changed(self, name: str) -> int | None:
        """When the file was changed that was uploaded, in nanoseconds."""
        try:
            told = self._client.head_object(Bucket=self._bucket, Key=self._prefix + name)
        except self._client.exceptions.ClientError:
            return None
        value = told.get("Metadata", {}).get(_TIME, "")
        return int(value) if value.isdigit() and len(value) < 20 else None

    def remove(self, names: Sequence[str]) -> None:
        """Delete objects, one after the other: their order is meant."""
        for name in names:
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def _transferred(
        self, names: Sequence[str], begin: Callable[[Any, str], Any], until: Callable[[], bool]
    ) -> dict[str, Exception]:
        from s3transfer.manager import TransferConfig, TransferManager

        failed: dict[str, Exception] = {}
        manager = TransferManager(self._client, TransferConfig())
        try:
            for start in range(0, len(names), _AT_ONCE):
                running: dict[str, Any] = {}
                for name in names[start : start + _AT_ONCE]:
                    try:
                        running[name] = begin(manager, name)
                    except OSError as error:
                        failed[name] = error
                _await(running, until)
                for name, future in running.items():
                    try:
                        future.result()
                    except Exception as error:  # botocore makes its exceptions when they are raised
                        failed[name] = error
        finally:
            manager.shutdown(cancel=until())
        return failed


class _BytesSent:
    """What s3transfer tells of bytes that went."""

    def __init__(self, place: S3Place) -> None:
        self._place = place

    def on_queued(self, future: Any, **_: Any) -> None:
        """Nothing has gone yet."""

    def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:
        """Some bytes have; those of a part that is sent again are taken back before."""
        self._place.progress += max(0, bytes_transferred)

    def on_done(self, future: Any, **_: Any) -> None:
        """Asked of the future itself."""


def _await(running: Mapping[str, Any], until: Callable[[], bool]) -> None:
    while not all(future.done() for future in running.values()):
        if until():
            for future in running.values():
                future.cancel()
            return
        time.sleep(_LOOK_SECONDS)


# A folder as the place of checkpoints: what a local run has instead of a prefix on S3.


_HALF = ".uploading"
"""The end of the names under which files are while they are written."""


class Folder:
    """Files below a folder; see `CheckpointPlace`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.progress = 0

    def sizes(self) -> dict[str, int]:
        """The bytes of all files by name."""
        found: dict[str, int] = {}
        for folder, _, names in os.walk(self._root):
            for name in names:
                path = Path(folder) / name
                if not name.endswith(_HALF) and path.is_file() and not path.is_symlink():
                    found[path.relative_to(self._root).as_posix()] = path.stat().st_size
        return found

    def put(self, files: Mapping[str, Path], until: Callable[[], bool]) -> dict[str, Exception]:
        """Copy files there, one after the other; what failed, by name."""
        failed: dict[str, Exception] = {}
        for name, file in files.items():
            if until():
                failed[name] = TimeoutError("no time was left")
                continue
            try:
                _copy(file, self._root / name)
                self.progress += 1
            except OSError as error:
                failed[name] = error
        return failed

    def get(self, files: Mapping[str, Path]) -> dict[str, Exception]:
        """Copy files from there; what failed, by name."""
        failed: dict[str, Exception] = {}
        for name, file in files.items():
            try:
                _copy(self._root / name, file)
            except OSError as error:
                failed[name] = error
        return failed

    def text(self, name: str, most: int) -> bytes:
        """What a file holds."""
        with (self._root / name).open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise ValueError(f"{name} has more than {most} bytes")
        return content

    def changed(self, name: str) -> int | None:
        """When the file was changed that was put there, in nanoseconds."""
        try:
            return (self._root / name).stat().st_mtime_ns
        except OSError:
            return None

    def remove(self, names: Sequence[str]) -> None:
        """Remove files and the folders that are empty then."""
        for name in names:
            file = self._root / name
            try:
                file.unlink()
            except FileNotFoundError:
                continue
            if file.parent != self._root and not any(file.parent.iterdir()):
                file.parent.rmdir()


def _copy(source: Path, target: Path) -> None:
    """All of it or nothing, durably, and with its time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{target.name}.{os.getpid()}{_HALF}")
    try:
        with source.open("rb") as read, half.open("wb") as write:
            status = os.fstat(read.fileno())
            shutil.copyfileobj(read, write, 1024 * 1024)
            write.flush()
            os.fsync(write.fileno())
        os.utime(half, ns=(status.st_atime_ns, status.st_mtime_ns))
        half.replace(target)
    except OSError:
        half.unlink() if half.exists() else None
        raise


# What a resuming rank asks of the prefix: which checkpoints are whole there, and their files.


MIRROR_VARIABLE = "SLIPWAY_CHECKPOINT_MIRROR"
"""Set by the boot for the ranks where it copies checkpoints: to where."""

MOST_CHECKPOINTS = 20
"""So many of the newest are offered; a manager keeps three."""


class PlaceMirror:
    """The checkpoints in a place (see slipway/saving/load_checkpoint.py)."""

    def __init__(self, place: CheckpointPlace) -> None:
        self._place = place

    def manifests(self) -> Mapping[str, str]:
        """By folder name the texts of the newest manifests. Raises OSError."""
        try:
            found = [name.split("/")[0] for name in self._place.sizes() if name.endswith(f"/{FILE_NAME}")]
            names = sorted((name for name in found if step_of(name) is not None), reverse=True)
            return {
                name: self._place.text(f"{name}/{FILE_NAME}", MAX_BYTES).decode("utf-8", "replace")
                for name in names[:MOST_CHECKPOINTS]
            }
        except Exception as error:  # botocore makes its exceptions when they are raised
            raise OSError(transfer_failure(error).sentence) from None

    def fetch(self, name: str, files: Sequence[str], folder: Path) -> None:
        """Put files of the checkpoint `name` into `folder`, all at once. Raises OSError."""
        try:
            sizes = self._place.sizes()
        except Exception as error:  # botocore makes its exceptions when they are raised
            raise OSError(transfer_failure(error).sentence) from None
        wanted = {file: sizes.get(f"{name}/{file}", 0) for file in files}
        room = shutil.disk_usage(folder).free
        if sum(wanted.values()) > room:
            raise OSError(f"{sum(wanted.values())} bytes do not fit into the {room} left in {folder}")
        halves = {file: folder / f"{file}.{os.getpid()}.partial" for file in files}
        failed = self._place.get({f"{name}/{file}": half for file, half in halves.items()})
        for file, half in halves.items():
            if f"{name}/{file}" not in failed:
                put_file(half, folder / file)
        if failed:
            missing, why = next(iter(failed.items()))
            raise OSError(f"{missing}: {transfer_failure(why).sentence}")


def mirror_from(environment: Mapping[str, str]) -> PlaceMirror | None:
    """The place to which the boot copies, None where it copies nothing.

    Raises ImportError as `place_of` does, of which the boot has told before.
    """
    uri = environment.get(MIRROR_VARIABLE)
    if not uri:
        return None
    return PlaceMirror(place_of(uri, environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")))


# Why something cannot be copied: what boto3 or the system raised, in a sentence that says what to do.


_DENIED = ("AccessDenied", "AccessDeniedException", "AllAccessDisabled", "Forbidden", "403")
_CREDENTIALS = (
    "ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch", "TokenRefreshRequired",
)  # fmt: skip
_BUSY = (
    "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "500", "502", "503", "504",
    "Throttling", "ThrottlingException", "RequestLimitExceeded",
)  # fmt: skip
_WITHOUT_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
_NOT_REACHED = (
    "EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError",
    "ConnectionError", "HTTPClientError", "ProxyConnectionError", "SSLError", "NoRegionError",
    "ResponseStreamingError", "IncompleteReadError",
)  # fmt: skip


class TransferFailure(NamedTuple):
    """A cause: `kind` is the same for all that fails alike, `passes` whether waiting may help."""

    kind: str
    sentence: str
    passes: bool


def transfer_failure(error: BaseException) -> TransferFailure:
    """What an exception of boto3, s3transfer or the system means."""
    error = getattr(error, "last_exception", None) or error
    name = type(error).__name__
    answer: Mapping[str, Any] = getattr(error, "response", None) or {}
    told = answer.get("Error", {})
    code, said = str(told.get("Code", "")), str(told.get("Message", ""))
    if code in _DENIED:
        return TransferFailure(
            "denied",
            f"S3 denies it ({code}: {said}). Allow the job's role s3:ListBucket on the bucket, and "
            "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload below the prefix",
            False,
        )
    if code in _CREDENTIALS or name in _WITHOUT_CREDENTIALS:
        return TransferFailure(
            "credentials", f"the credentials are not taken ({code or name}: {said or error})", False
        )
    if code == "NoSuchBucket":
        return TransferFailure("no bucket", "there is no such bucket. Correct `checkpoint.s3_uri`", False)
    if code in _BUSY:
        return TransferFailure(
            "busy", f"S3 has answered {code} again and again: it is overloaded or down", True
        )
    if code:
        return TransferFailure(code, f"S3 answered {code}: {said}", False)
    if name in _NOT_REACHED:
        return TransferFailure(
            "no route",
            f"S3 was not reached ({_short(error)}). The subnets need a gateway endpoint to S3 or a NAT, and "
            "the security group must let HTTPS out",
            True,
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return TransferFailure("no space", "there is no space left on the disk that it goes to", False)
    if isinstance(error, OSError) and error.strerror:
        return TransferFailure(error.strerror, f"{error.strerror} ({error.filename})", False)
    if isinstance(error, TimeoutError) or name == "CancelledError":
        return TransferFailure("no time", "the time that was left for it has passed", False)
    return TransferFailure(name, f"{name}: {_short(error)}", True)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:199]}…"
