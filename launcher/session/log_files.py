"""Log files and standard input as the diagnosis reads them: records with the host that printed them."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import BinaryIO

from launcher.cluster.sagemaker_names import HOST_NAME, host_name
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.recognition import HEAD, evidence_of
from launcher.diagnosis.record import Record
from launcher.documents.files import file_mode, open_regular
from launcher.failure_modes.refusal import Refusal

STDIN = Path("-")

_LOGS = re.compile(r"^[^.][^.]*$|\.(?:log|txt|out|err)(?:\.\d+)?$")
_DUMPS = re.compile(r"\.(?:json|pickle|pkl|bin|recorder|stacks)$")
"""Names of files that may be evidence, and are no logs where they are not."""

_LONGEST_LINE = 1 << 16


def records_of(
    paths: Sequence[Path], stdin: BinaryIO | None = None, *, evidence: list[FileEvidence] | None = None
) -> Iterator[Record]:
    """The lines of the files, folders and standard input (`-`), file by file.

    What is no log but evidence, such as a flight recorder's dump, is put into `evidence` and has no lines.
    The host is the `algo-N` in the path, else the file's name where there are several. What is not
    UTF-8 is replaced, never refused. Raises Refusal before the first line where a path cannot be read.
    """
    dumps = evidence is not None
    files = list(dict.fromkeys(file for path in paths for file in _files(path, dumps=dumps)))
    for file in files:
        if file != STDIN:
            _check(file)
    if evidence is not None:
        files = _logs_among(files, set(paths), evidence)
    return _records(files, stdin)


def _logs_among(files: Sequence[Path], named: Set[Path], evidence: list[FileEvidence]) -> list[Path]:
    """The files that are logs, with those that the user named; what the others say goes into the evidence."""
    logs = []
    for file in files:
        found = None if file == STDIN else _evidence_in(file)
        if found is not None:
            evidence.append(found)
        if found is not None and not found.has_lines:
            continue
        if found is not None or file in named or not _DUMPS.search(file.name):
            logs.append(file)
    return logs


def _evidence_in(file: Path) -> FileEvidence | None:
    with open_regular(file) as opened:
        head = opened.read(HEAD)

        def content(most: int) -> bytes:
            return head + opened.read(most + 1 - len(head))

        return evidence_of(str(file), head, content)


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


def _files(path: Path, *, dumps: bool) -> Iterable[Path]:
    if path == STDIN or not stat.S_ISDIR(file_mode(path)):
        return [path]
    found = sorted(
        file for file in _all_files(path) if _LOGS.search(file.name) or (dumps and _DUMPS.search(file.name))
    )
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
