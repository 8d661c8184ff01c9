"""Log files and standard input as the diagnosis reads them: records with the host that printed them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from launcher.cluster.sagemaker_names import HOST_NAME, host_name
from launcher.diagnosis.record import Record
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
        with file.open("rb") as opened:
            yield from _lines(opened, host)


def _lines(file: BinaryIO, host: str) -> Iterator[Record]:
    for line in iter(lambda: file.readline(_LONGEST_LINE), b""):
        yield Record(None, host, line.rstrip(b"\r\n").decode("utf-8", errors="replace"))


def _files(path: Path) -> Iterable[Path]:
    if path == STDIN or not path.is_dir():
        return [path]
    found = sorted(file for file in path.rglob("*") if _LOGS.search(file.name) and file.is_file())
    if not found:
        raise Refusal(f"{path} has no log files in it.", "Name the files: launch diagnose --log FILE...")
    return found


def _check(file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise Refusal(
            f"{file} cannot be read: {error.strerror}.", "Check the path and its permissions."
        ) from None


def _host(file: Path, *, several: bool) -> str:
    numbers = HOST_NAME.findall(str(file))
    if numbers:
        return host_name(str(numbers[-1]))
    return file.name if several and file != STDIN else ""
