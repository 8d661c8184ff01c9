"""Where checkpoints are copied to: a prefix on S3, or in a local run a folder of the job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from slipway.uploads.bucket import S3Place
from slipway.uploads.folder import Folder


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


def is_name(name: str) -> bool:
    """Whether a name found in a place leads to a file below a folder, wherever that is."""
    parts = name.split("/")
    return "\0" not in name and all(part not in ("", ".", "..") and len(part) < 256 for part in parts)
