"""Logs on this machine as the diagnosis reads them: files, folders, archives and standard input.

What the path of a log tells is read here, too: whether it is one, the host, the rank, and what to call its
stream.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import BinaryIO, Protocol

from launcher.cluster.names import host_in
from launcher.diagnosis.evidence.collect import evidence_of
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.logs.decode import ZIP, Archive, Unreadable, as_text, unpack
from launcher.diagnosis.logs.events import Event
from launcher.diagnosis.logs.formats import PLAIN, Format, format_of
from launcher.diagnosis.logs.lines import BLOCK, HEAD, LogRecord, LogStream, Record, split_head
from launcher.failure_modes.model import Refusal
from launcher.text.regular_files import file_mode, open_regular
from launcher.text.values import without_controls


@dataclass(frozen=True)
class LogFiles:
    """Everything that was found, the lines to be read once: `records` have times, `streams` have none.

    Both raise Refusal where a file turns out to be damaged while it is read. `evidence` is of files such as
    a flight recorder's dumps.
    """

    records: Iterator[LogRecord]
    streams: Iterator[LogStream]
    evidence: tuple[FileEvidence, ...] = ()

    @property
    def unread(self) -> tuple[str, ...]:
        """What looks like evidence and could not be read, each with the reason."""
        return tuple(text for each in self.evidence for text in each.unread)


@dataclass(frozen=True)
class _Log:
    """One log: its parts in their order, how they are read, what it is called, and the folder of a host that
    it lies in, None where that is not known to be one."""

    path: PurePath
    name: str
    parts: tuple[LogPart, ...]
    format: Format
    folder: str | None = None

    @property
    def host(self) -> str:
        """The `algo-N` in its path, else its host's folder, else what it is called."""
        return host_in(str(self.path)) or self.folder or self.name


def logs_in(paths: Sequence[Path], stdin: BinaryIO | None = None) -> LogFiles:
    """The logs in files, folders, archives and standard input (`-`), whatever format they are in, and what
    lies beside them as evidence.

    What is not UTF-8 is replaced, never refused. The beginning of every file is looked at first. Raises
    Refusal where a path cannot be read, where a file that was named is no log, and where a folder has none.
    """
    evidence: list[FileEvidence] = []
    logs = _logs_of(parts_of(paths, stdin), evidence)
    return LogFiles(
        records=(record for log in logs for record in _records(log)),
        streams=(_stream(log) for log in logs if log.format.as_events is None),
        evidence=tuple(evidence),
    )


def _logs_of(parts: Sequence[LogPart], evidence: list[FileEvidence]) -> list[_Log]:
    """The logs among the parts; what others are evidence of is added to `evidence`."""
    read: list[tuple[LogPart, Format]] = []
    problem: Refusal | None = None
    for part in parts:
        try:
            found = _evidence_in(part)
            if found is not None:
                evidence.append(found)
            if found is None or found.has_lines:
                read.append((part, _format_of(part)))
        except Refusal as error:
            if not part.is_found:
                raise
            problem = problem or error
    # Settings and results are JSON and CSV as well.
    kept = [(part, form) for part, form in read if not _is_something_else(part, form)]
    if not kept and not evidence:
        raise problem or Refusal(
            "None of these files is a log.", "Name the files: launch diagnose --log FILE..."
        )
    groups: dict[PurePath, list[tuple[LogPart, Format]]] = {}
    for part, form in kept:
        path = part.path.parent if part.is_found and is_piece(part.path) else part.path
        groups.setdefault(path, []).append((part, form))
    names = short_names(list(groups))
    folders = hosts_folders(names.values())
    return [
        _Log(
            path,
            _name(path, names[path], len(groups)),
            tuple(part for part, _ in group),
            group[0][1],
            next((folder for folder in folders if names[path].startswith(f"{folder}/")), None),
        )
        for path, group in groups.items()
    ]


def _is_something_else(part: LogPart, form: Format) -> bool:
    return part.is_found and form == PLAIN and may_be_log(part.path.name)


def _name(path: PurePath, short: str, count: int) -> str:
    """What a log is called: where it is the only one, nobody has to be told which."""
    return short if count > 1 and path != STDIN else ""


def _evidence_in(part: LogPart) -> FileEvidence | None:
    try:
        with part.blocks() as blocks:
            head, whole = split_head(blocks)
            return evidence_of(str(part.path), head, lambda most: _beginning(whole, most + 1))
    except OSError as error:
        raise unreadable(part.path, error) from None
    except Unreadable as error:
        raise refused(part.path, error) from None


def _beginning(blocks: Iterator[bytes], size: int) -> bytes:
    """The first bytes of what comes, at most so many."""
    kept = bytearray()
    for block in blocks:
        kept += block[: size - len(kept)]
        if len(kept) == size:
            break
    return bytes(kept)


def _format_of(part: LogPart) -> Format:
    try:
        with part.blocks() as blocks:
            head, _ = split_head(blocks)
            return format_of(split_head(as_text([head]), HEAD)[0])
    except OSError as error:
        raise unreadable(part.path, error) from None
    except Unreadable as error:
        raise refused(part.path, error) from None


def _text_of(log: _Log) -> Iterator[bytes]:
    """The text of all parts, each ended by a line feed."""
    for part in log.parts:
        try:
            with part.blocks() as blocks:
                last = b""
                for last in as_text(blocks):
                    yield last
                if last and not last.endswith(b"\n"):
                    yield b"\n"
        except OSError as error:
            raise unreadable(part.path, error) from None
        except Unreadable as error:
            raise refused(part.path, error) from None


def _stream(log: _Log) -> LogStream:
    path = str(log.path)
    return LogStream(
        name=path,
        host=log.host,
        rank=rank_in(path),
        local_rank=local_rank_in(path),
        blocks=log.format.as_text(_text_of(log)),
    )


def _records(log: _Log) -> Iterator[LogRecord]:
    if log.format.as_events is None:
        return
    try:
        for event in log.format.as_events(_text_of(log)):
            yield from _lines(log, event)
    except Unreadable as error:
        raise refused(log.path, error) from None


def _lines(log: _Log, event: Event) -> Iterator[Record]:
    host = host_in(event.stream) or host_in(str(log.path)) or event.stream or log.name
    stream = f"{log.path}:{event.stream}"
    for line in event.text.splitlines() or [""]:
        yield Record(event.time, host, line, stream)


# The parts of which logs consist: files, members of archives, standard input.


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
            yield unpack(_read(opened))


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
            yield unpack(Archive(opened).blocks(self.name))


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
            magic, blocks = split_head(_read(self.stream or sys.stdin.buffer), 4)
            if magic in ZIP:
                raise Unreadable("is a zip archive, which is not read from a pipe.", "Name the file.")
            head, whole = split_head(unpack(blocks))
            self._begun = (head, _parts_behind(whole, len(head)))
        head, rest = self._begun
        yield chain([head], rest)


def _parts_behind(blocks: Iterator[bytes], length: int) -> Iterator[bytes]:
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


# What the path of a log tells: whether it is one, the host, the rank, and what to call its stream.


_PACKED = re.compile(r"\.(?:gz|zst|zip)$")
_LOG = re.compile(r"^[^.]+$|\.(?:log|txt|out|err)(?:\.\d{1,4})?$")
_MAYBE = re.compile(r"\.(?:jsonl?|ndjson|csv|pickle|pkl|bin|recorder|stacks)$")
_EXPORTED = re.compile(r"^\d{6}(?:\.gz)?$")
"""How an export of CloudWatch Logs to S3 calls the pieces of a stream, in a folder with the stream's name."""

_OF_TORCHRUN = re.compile(r"(?:^|/)attempt_\d{1,4}/(\d{1,6})/std(?:out|err)\.log")
"""Where torchrun's `--log-dir` has what a process printed (torch/distributed/elastic/multiprocessing/api.py,
DefaultLogsSpecs); the number is the local rank."""
_HOSTS_FOLDER = re.compile(r"^([^/]+)/[^/]+/attempt_\d{1,4}/\d{1,6}/")
_RANK = re.compile(r"(?:^|[/_.-])rank[_-]?(\d{1,6})(?=[/_.-]|$)", re.I)


def is_log(name: str) -> bool:
    """Whether a file in a folder is a log by its name."""
    return bool(_LOG.search(_PACKED.sub("", name)))


def may_be_log(name: str) -> bool:
    """Whether it is one if its content is: other things are kept in such files, too."""
    return bool(_MAYBE.search(_PACKED.sub("", name)))


def is_piece(path: PurePath) -> bool:
    """Whether it is a piece of an exported stream, which goes on in the next one of its folder."""
    return bool(_EXPORTED.match(path.name))


def rank_in(path: str) -> int | None:
    """The global rank that a path names, as in `logs/rank_3.log`."""
    numbers = _RANK.findall(path)
    return int(numbers[-1]) if numbers else None


def local_rank_in(path: str) -> int | None:
    """The local rank whose output torchrun's log folder has there."""
    match = _OF_TORCHRUN.search(path)
    return int(match[1]) if match else None


def hosts_folders(names: Iterable[str]) -> frozenset[str]:
    """The folders of hosts, each with torchrun's log folder of that host, by the names that `short_names`
    gives: `gpu-2` of `gpu-2/none_x7/attempt_0/3/stderr.log`."""
    return frozenset(match[1] for name in names if (match := _HOSTS_FOLDER.match(name)))


def short_names(paths: Sequence[PurePath]) -> dict[PurePath, str]:
    """The end of each path that tells it from the others, such as `left.log` or `0/stderr.log`."""
    names: dict[PurePath, str] = {}
    waiting = list(dict.fromkeys(paths))
    for length in range(1, max((len(path.parts) for path in waiting), default=0) + 1):
        ends = Counter("/".join(path.parts[-length:]) for path in waiting)
        for path in waiting:
            end = "/".join(path.parts[-length:])
            if ends[end] == 1 or len(path.parts) <= length:
                names[path] = end
        waiting = [path for path in waiting if path not in names]
    return names
