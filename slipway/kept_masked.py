"""What torchrun keeps of its ranks, in a job with secrets: masked before it lies where it stays.

torchrun lets each rank write into a file, and nobody stands between. So the files are in a folder of their
own, outside of what the service or the launcher keeps, and masked copies of them are made when all is over.
Of a host that is killed before, nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from slipway.masking import Masking

_CHUNK = 1024 * 1024


@contextlib.contextmanager
def kept_masked(logs: Path, masking: Masking) -> Iterator[Path]:
    """The folder for torchrun's files; at the end they are in `logs`, without what `masking` hides.

    Without secrets that is `logs` itself. Where the copies cannot be written, that is said and no more.
    """
    if not masking:
        yield logs
        return
    private = Path(tempfile.mkdtemp(prefix="slipway-"))
    try:
        yield private
        _copy_all(private, logs, masking)
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _copy_all(private: Path, logs: Path, masking: Masking) -> None:
    try:
        _copy_folder(private, logs, masking)
    except OSError as error:
        told = f"what the ranks printed cannot be kept in {logs}: {error.strerror}"
        print(f"slipway: {told}", file=sys.stderr, flush=True)


def _copy_folder(source: Path, target: Path, masking: Masking) -> None:
    """All regular files; their times and the folders' tell which rank failed first."""
    target.mkdir(parents=True, exist_ok=True)
    for each in sorted(source.iterdir()):
        mode, copy = each.lstat(), target / each.name
        if stat.S_ISDIR(mode.st_mode):
            _copy_folder(each, copy, masking)
        elif stat.S_ISREG(mode.st_mode):
            with each.open("rb", buffering=0) as reading, copy.open("wb") as writing:
                _copy(reading, writing, masking)
        else:
            continue
        os.utime(copy, ns=(mode.st_atime_ns, mode.st_mtime_ns))


def _copy(reading: IO[bytes], writing: IO[bytes], masking: Masking) -> None:
    """The copy has the same holes (slipway/rank_files.py), if at other offsets."""
    size = os.fstat(reading.fileno()).st_size
    reached = 0
    for begin, end in _stretches(reading.fileno(), size):
        writing.seek(begin - reached, os.SEEK_CUR)
        stream = masking.stream()
        reading.seek(begin)
        while reading.tell() < end:
            writing.write(stream.feed(reading.read(min(_CHUNK, end - reading.tell()))))
        writing.write(stream.end())
        reached = end


def _stretches(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Where a file holds something, by offsets; all of it where the system does not tell."""
    end = 0
    while end < size:
        try:
            begin = os.lseek(descriptor, end, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except (AttributeError, OSError):
            # ENXIO: nothing but a hole is left. A file system without holes has none at all.
            if end == 0:
                yield 0, size
            return
        yield begin, end
