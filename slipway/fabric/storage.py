"""How fast the hosts write and read what they share: folders, and the job's place for checkpoints on S3.

All hosts write at once, a file each, and wait for each other; then each reads the file of the next host,
which it has not written itself and so has not in its memory. Written means on the disk (fsync), or taken by
S3. A place that fails is told with its reason, and the others are measured all the same.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from slipway.saving.upload_places import CheckpointPlace, place_of
from slipway.saving.uploads import URI_VARIABLE

_BLOCK = 8 * 1024 * 1024
"""Bytes of random data that are written again and again; no file system's compression looks so far back."""

_LONGEST_REASON = 300

_NAME = ".slipway-proof-"
"""What the files are called, before the name of the host that writes one."""


class StorageHosts(Protocol):
    """The job's hosts, of which each has one rank that speaks for it; `measure.Peers` is that."""

    hosts: list[Any]
    host: Any

    @property
    def is_first_on_host(self) -> bool:
        """Whether this rank speaks for its host."""
        ...

    def gather(self, told: Any) -> list[Any]:
        """What each rank tells, by rank; waits for all of them."""
        ...


class MountedPlace:
    """A folder that all hosts see: what is written there by one is read by another."""

    def __init__(self, named: str, size: int) -> None:
        """`named` is NAME=PATH, `size` the bytes of each host's file."""
        self.what, _, path = named.partition("=")
        self._folder, self._size = Path(path), size

    def prepare(self, host: str) -> None:
        """Nothing is needed."""

    def write(self, host: str) -> None:
        """Write the file of a host. Raises OSError."""
        write_file(self._folder / (_NAME + host), self._size)

    def read(self, host: str) -> None:
        """Read the file of a host. Raises OSError."""
        read_file(self._folder / (_NAME + host))

    def remove(self, host: str) -> None:
        """Remove the file of a host."""
        (self._folder / (_NAME + host)).unlink()


class CheckpointStore:
    """Where the job's checkpoints go: a prefix on S3, in a run on one machine a folder."""

    def __init__(self, environment: Mapping[str, str], scratch: Path, size: int) -> None:
        """`scratch` is a folder for the file that is uploaded, of `size` bytes."""
        self._uri = environment.get(URI_VARIABLE, "")
        self._region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
        self._file, self._size = scratch / "file", size
        self._place: CheckpointPlace | None = None
        self.what = "S3" if self._uri.startswith("s3://") else "checkpoints"

    def prepare(self, host: str) -> None:
        """Write the file that is uploaded. Raises OSError where the job has no such place."""
        if not self._uri:
            raise OSError(f"the job has no place for checkpoints: {URI_VARIABLE} is not set")
        self._place = place_of(self._uri, self._region)
        write_file(self._file, self._size)

    def write(self, host: str) -> None:
        """Upload the file of a host. Raises what the upload ended with."""
        assert self._place is not None
        _raise_first(self._place.put({_NAME + host: self._file}, lambda: False))

    def read(self, host: str) -> None:
        """Download the file of a host. Raises what the download ended with."""
        assert self._place is not None
        _raise_first(self._place.get({_NAME + host: self._file}))

    def remove(self, host: str) -> None:
        """Remove the file of a host."""
        if self._place is not None:
            self._place.remove([_NAME + host])


def measure_storage(
    hosts: StorageHosts, folders: Sequence[str], checkpoints: bool, size: int, environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What each place gives: `what`, and by host `write` and `read` in GB/s, or an `error`.

    `folders` are NAME=PATH; with `checkpoints` the place of the job's checkpoints is measured as well. Each
    host writes `size` bytes; 0 measures nothing. All ranks call it and get the same.
    """
    if size <= 0:
        return []
    with tempfile.TemporaryDirectory() as scratch:
        places: list[Any] = [MountedPlace(named, size) for named in folders]
        places += [CheckpointStore(environment, Path(scratch), size)] if checkpoints else []
        return [_measure(place, hosts, size) for place in places]


def _measure(place: Any, hosts: StorageHosts, size: int) -> dict[str, Any]:
    following = hosts.hosts[(hosts.hosts.index(hosts.host) + 1) % len(hosts.hosts)]
    found: dict[str, Any] = {"what": place.what, "bytes": size, "write": {}, "read": {}, "error": None}
    stages = (("prepare", place.prepare, hosts.host), ("write", place.write, hosts.host))
    for stage, act, host in (*stages, ("read", place.read, following)):
        told = [each for each in hosts.gather(_attempt(act, host, hosts)) if each is not None]
        errors = [each["error"] for each in told if each["error"]]
        if errors:
            found["error"] = f"{stage}: {errors[0]}"
            break
        if stage != "prepare":
            found[stage] = {each["host"]: float(f"{size / each['seconds'] / 1e9:.4g}") for each in told}
    if hosts.is_first_on_host:
        # What could not be written is not there; what cannot be removed is in nobody's way.
        with contextlib.suppress(Exception):
            place.remove(hosts.host)
    return found


def _attempt(act: Callable[[str], None], host: str, hosts: StorageHosts) -> dict[str, Any] | None:
    """How long this host took, and what went wrong; None on ranks that do not speak for their host."""
    if not hosts.is_first_on_host:
        return None
    error, begun = None, time.perf_counter()
    try:
        act(host)
    except Exception as raised:  # whatever a file system or boto3 raises is the answer
        error = f"{type(raised).__name__}: {raised}"[:_LONGEST_REASON]
    return {"host": hosts.host, "seconds": max(time.perf_counter() - begun, 1e-9), "error": error}


def _raise_first(failed: Mapping[str, Exception]) -> None:
    for error in failed.values():
        raise error


def write_file(path: Path, size: int) -> None:
    """Write so many bytes that nothing can compress, to the disk. Raises OSError."""
    block = memoryview(os.urandom(min(size, _BLOCK)))
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as file:
        left = size
        while left > 0:
            left -= file.write(block[:left])
        os.fsync(file.fileno())


def read_file(path: Path) -> None:
    """Read a file to its end. Raises OSError."""
    block = bytearray(_BLOCK)
    with path.open("rb", buffering=0) as file:
        # With one host it is the file that was just written: not from memory, where the system listens.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while file.readinto(block):
            pass
