"""How files go to S3, and objects from place to place on it: in parts where they are large, and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from launcher.backends.interface import OnProgress, Progress

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
