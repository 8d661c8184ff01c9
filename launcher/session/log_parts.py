"""The parts of which logs consist: files, members of archives, standard input."""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol

from launcher.diagnosis.formats.archives import ZIP, Archive
from launcher.diagnosis.formats.blocks import BLOCK, headed
from launcher.diagnosis.formats.compression import unpacked
from launcher.diagnosis.formats.unreadable import Unreadable
from launcher.documents.files import file_mode, open_regular
from launcher.failure_modes.refusal import Refusal
from launcher.session.log_paths import is_log, may_be_log
from launcher.text.controls import without_controls

STDIN = Path("-")


class LogPart(Protocol):
    """Something that holds one log, or a piece of one."""

    @property
    def path(self) -> PurePath:
        """What it is called; below an archive's own path for a member."""
        ...

    @property
    def is_found(self) -> bool:
        """Whether nobody named it: it was found in a folder or an archive, and may be no log."""
        ...

    def blocks(self) -> AbstractContextManager[Iterator[bytes]]:
        """Its content, unpacked, as long as it is open. Raises OSError and Unreadable."""
        ...


@dataclass(frozen=True)
class LogFile:
    """A file of its own."""

    file: Path
    is_found: bool

    @property
    def path(self) -> PurePath:
        """The file's path."""
        return self.file

    @contextlib.contextmanager
    def blocks(self) -> Iterator[Iterator[bytes]]:
        """See `LogPart.blocks`."""
        with open_regular(self.file) as opened:
            yield unpacked(_read(opened))


@dataclass(frozen=True)
class ArchivedLog:
    """A file in a zip archive. Its name is the archive's word: nothing is opened by it."""

    archive: Path
    name: str
    is_found: bool = True

    @property
    def path(self) -> PurePath:
        """The archive's path and the member's name."""
        return PurePath(self.archive, self.name.lstrip("/"))

    @contextlib.contextmanager
    def blocks(self) -> Iterator[Iterator[bytes]]:
        """See `LogPart.blocks`."""
        with open_regular(self.archive) as opened:
            yield unpacked(Archive(opened).blocks(self.name))


@dataclass
class PipedLog:
    """What comes through a pipe, which can be read once: its beginning comes again in the reading."""

    stream: BinaryIO | None = None
    is_found: bool = False
    path: PurePath = STDIN
    _begun: tuple[bytes, Iterator[bytes]] | None = None

    @contextlib.contextmanager
    def blocks(self) -> Iterator[Iterator[bytes]]:
        """See `LogPart.blocks`. Whoever reads only the head leaves all of it to the next reader."""
        if self._begun is None:
            magic, blocks = headed(_read(self.stream or sys.stdin.buffer), 4)
            if magic in ZIP:
                raise Unreadable("is a zip archive, which is not read from a pipe.", "Name the file.")
            head, whole = headed(unpacked(blocks))
            self._begun = (head, _behind(whole, len(head)))
        head, rest = self._begun
        yield chain([head], rest)


def _behind(blocks: Iterator[bytes], length: int) -> Iterator[bytes]:
    """What follows so many bytes."""
    for block in blocks:
        yield block[length:]
        length -= min(length, len(block))


def parts_of(paths: Sequence[Path], stdin: BinaryIO | None = None) -> list[LogPart]:
    """The files that are named, those in the folders that are named, and what is in archives among them.

    Raises Refusal for what cannot be read, and for a folder without anything that is called like a log.
    """
    parts: dict[PurePath, LogPart] = {}
    for path in paths:
        for part in [PipedLog(stdin)] if path == STDIN else _of_path(path):
            parts.setdefault(part.path, part)
    return list(parts.values())


def _of_path(path: Path) -> Iterator[LogPart]:
    if not stat.S_ISDIR(file_mode(path)):
        yield from _of_file(path, is_found=False)
        return
    found = [part for file in sorted(_all_files(path)) for part in _of_file(file, is_found=True)]
    if not found:
        raise Refusal(f"{path} has no log files in it.", "Name the files: launch diagnose --log FILE...")
    yield from found


def _of_file(file: Path, *, is_found: bool) -> list[LogPart]:
    """The file, or the logs in it where it is an archive."""
    if is_found and not is_candidate(file.name):
        return []
    try:
        with open_regular(file) as opened:
            if opened.peek(len(ZIP[0]))[: len(ZIP[0])] not in ZIP:
                return [LogFile(file, is_found)]
            names = [name for name in Archive(opened).names if is_candidate(PurePath(name).name)]
    except OSError as error:
        raise unreadable(file, error) from None
    except Unreadable as error:
        raise refused(file, error) from None
    if not names and not is_found:
        raise Refusal(f"{file} is an archive without logs in it.", "Name the logs themselves.")
    return [ArchivedLog(file, name) for name in names]


def is_candidate(name: str) -> bool:
    """Whether a file that nobody named is looked at."""
    return is_log(name) or may_be_log(name)


def unreadable(path: PurePath, error: OSError) -> Refusal:
    """What is said of a file that the system does not give."""
    return Refusal(
        f"{path} cannot be read: {error.strerror}.",
        "Give files that you may read, a folder with such, or - for standard input.",
    )


def refused(path: PurePath, error: Unreadable) -> Refusal:
    """What is said of a file in which no log can be read."""
    name = "standard input" if path == STDIN else without_controls(str(path))
    return Refusal(f"{name} {error.problem}", error.remedy)


def _read(file: BinaryIO) -> Iterator[bytes]:
    # A pipe gives what is there; a buffered file as much as is asked for.
    return iter(lambda: file.read(BLOCK), b"")


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
