"""A prefix on S3 as the place of checkpoints, by boto3's own transfer manager.

boto3 and s3transfer are in AWS's images; they are imported when a job that needs them starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

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
