"""Logs on this machine as the diagnosis reads them: files, folders, archives and standard input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import BinaryIO

from launcher.cluster.sagemaker_names import host_in
from launcher.diagnosis.evidence.model import FileEvidence
from launcher.diagnosis.evidence.recognition import evidence_of
from launcher.diagnosis.formats.blocks import HEAD, headed
from launcher.diagnosis.formats.detection import PLAIN, Format, format_of
from launcher.diagnosis.formats.event import Event
from launcher.diagnosis.formats.text import as_text
from launcher.diagnosis.formats.unreadable import Unreadable
from launcher.diagnosis.record import LogRecord, LogStream, Record
from launcher.failure_modes.refusal import Refusal
from launcher.session.log_parts import STDIN, LogPart, parts_of, refused, unreadable
from launcher.session.log_paths import (
    hosts_folders,
    is_piece,
    local_rank_in,
    may_be_log,
    rank_in,
    short_names,
)


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
            head, whole = headed(blocks)
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
            head, _ = headed(blocks)
            return format_of(headed(as_text([head]), HEAD)[0])
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
