"""Log files and standard input as the diagnosis reads them: records with the host that printed them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from launcher.cluster.sagemaker_names import HOST_NAME, host_name
from launcher.diagnosis.record import Record
from launcher.documents.files import file_mode, open_regular
from launcher.failure_modes.refusal import Refusal

STDIN = Path("-")

_LOGS = re.compile(r"^[^.][^.]*$|\.(?:log|txt|out|err)(?:\.\d+)?$")
_LONGEST_LINE = 1 << 16


def records_of(paths: Sequence[Path], stdin: BinaryIO | None = None) -> Iterator[Record]:
    """The lines of the files, folders and standard input (`-`), file by file.

    The host is the `algo-N` in the path, else the file's name where there are several. What is not
    UTF-8 is replaced, never refused. Raises Refusal before the first line where a path cannot be read.
    """
    files = list(dict.fromkeys(file for path in paths for file in _files(path)))
    for file in files:
        if file != STDIN:
            _check(file)
    return _records(files, stdin)


def _records(files: Sequence[Path], stdin: BinaryIO | None) -> Iterator[Record]:
    for file in files:
        host = _host(file, several=len(files) > 1)
        if file == STDIN:
            yield from _lines(stdin or sys.stdin.buffer, host)
            continue
        with open_regular(file) as opened:
            yield from _lines(opened, host)


def _lines(file: BinaryIO, host: str) -> Iterator[Record]:
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        yield Record(None, host, line.rstrip(b"\r\n").decode("utf-8", errors="replace"))


def _files(path: Path) -> Iterable[Path]:
    if path == STDIN or not stat.S_ISDIR(file_mode(path)):
        return [path]
    found = sorted(file for file in _all_files(path) if _LOGS.search(file.name))
    if not found:
        raise Refusal(f"{path} has no log files in it.", "Name the files: launch diagnose --log FILE...")
    return found


def _all_files(folder: Path) -> Iterator[Path]:
    """The regular files in a folder and those below it, however deep; links to folders are not followed."""
    folders = [folder]
    while folders:
        # What cannot be looked into has no logs for this user.
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif entry.is_file():
                    yield Path(entry.path)


def _check(file: Path) -> None:
    try:
        with open_regular(file):
            pass
    except OSError as error:
        raise Refusal(
            f"{file} cannot be read: {error.strerror}.",
            "Give files that you may read, a folder with such, or - for standard input.",
        ) from None


def _host(file: Path, *, several: bool) -> str:
    numbers = HOST_NAME.findall(str(file))
    if numbers:
        return host_name(str(numbers[-1]))
    return file.name if several and file != STDIN else ""
