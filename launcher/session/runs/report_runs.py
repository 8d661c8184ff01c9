"""What is known of a run, gathered from its lines, its status and its plan; and the page of it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from launcher.backends.interface import FoundJob, JobState, LogLine
from launcher.diagnosis.diagnose import SuccessReader, diagnose
from launcher.diagnosis.logs.lines import LogRecord, LogStream, Record, lines_of
from launcher.diagnosis.model import Diagnosis, RankState, table_of
from launcher.failure_modes.model import Refusal
from launcher.report.page import is_ours, page_of
from launcher.report.run_report import (
    PlannedRun,
    RunJob,
    RunLines,
    RunPhase,
    RunReader,
    RunReport,
    locate_incident,
)
from launcher.session.log_files import STDIN, logs_in
from launcher.session.plan_notes import read_plan_note
from launcher.session.runs.diagnose_job import Check, Seen, diagnosis_of
from launcher.session.runs.measure_goodput import LineTimes, split_billed_time, times_of
from launcher.session.runs.read_job_lines import rank_of
from launcher.text import __version__
from launcher.text.regular_files import file_mode, read_regular, replace_file

_BEGINNING = 2_000
"""Bytes of a file in which a page of ours says that it is one."""


MARKED_NAME = "report.html"
"""How the name of a page ends."""


def report_of_job(
    found: FoundJob,
    check: Check | None = None,
    seen: Seen = lambda _: None,
    *,
    without_lines: bool = True,
) -> RunReport:
    """What is known of a job, from one reading of its lines; `check` is as in `diagnose_job`.

    `seen` gets the lines, too. Raises AwsRefusal where AWS refuses the lines and gives no reason for a
    failure itself; without `without_lines` whenever AWS refuses them.
    """
    status, reader, success = found.status, RunReader(found.status.metrics), SuccessReader()

    times = LineTimes(status)

    def read(lines: Sequence[LogLine]) -> None:
        seen(lines)
        times.read(lines)
        success.read(lines)
        for line in lines:
            reader.read(line, rank_of(line, status.processes_per_host))

    diagnosis = diagnosis_of(found.backend, status, read, check, time.time(), without_lines=without_lines)
    job, planned = _job(found, times, diagnosis), read_plan_note(status.name)
    report = _report(status.name, diagnosis, reader.result(), job, planned)
    completed = status.state is JobState.COMPLETED
    return replace(report, warnings=success.warnings) if completed else report


def report_of_logs(paths: Sequence[Path], stdin: BinaryIO | None = None) -> RunReport:
    """What log files, folders and standard input (`-`) tell of a run.

    Raises Refusal for what cannot be read.
    """
    reader = RunReader()
    files = logs_in(paths, stdin)
    diagnosis = diagnose(
        _read_along(files.records, reader),
        streams=(replace(each, blocks=_stream_along(each, reader)) for each in files.streams),
        evidence=files.evidence,
    )
    return _report(_called(paths), diagnosis, reader.result(), None, None)


def page_file(name: str | None, folder: Path) -> Path:
    """Where a page goes that nobody gave a place: `NAME-report.html`, for log files `log-report.html`."""
    return folder / f"{name or 'log'}-{MARKED_NAME}"


def write_page(report: RunReport, file: Path, *, force: bool) -> None:
    """Write the page at once or not at all; an earlier page is written over, and another file with `force`.

    Raises Refusal where something else lies there, or where it cannot be written.
    """
    check_place(file, force=force)
    try:
        replace_file(file, page_of(report))
    except OSError as error:
        raise Refusal(
            f"{file} cannot be written: {error.strerror}.", "Give another place with --file FILE."
        ) from error


def check_place(file: Path, *, force: bool) -> None:
    """Raise Refusal where something lies that is no page of ours, and that `force` does not give up."""
    if not file_mode(file):
        return
    try:
        ours = is_ours(read_regular(file, _BEGINNING).decode("utf-8", "replace"))
    except OSError as error:
        raise Refusal(
            f"{file} cannot be written over: {error.strerror}.", "Give another place with --file FILE."
        ) from error
    if not ours and not force:
        raise Refusal(
            f"{file} is there already and is no page of a run.",
            "Give another place with --file FILE, or write over it with --force.",
        )


def _read_along(records: Iterable[LogRecord], reader: RunReader) -> Iterator[LogRecord]:
    for record in records:
        reader.read(record, rank_of(record))
        yield record


def _stream_along(stream: LogStream, reader: RunReader) -> Iterator[bytes]:
    """The blocks of a stream; their lines are read as those of its rank, where they name no other."""
    begun = b""
    for block in stream.blocks:
        yield block
        whole, line_feed, begun = (begun + block).rpartition(b"\n")
        if line_feed:
            _read_lines(whole, stream, reader)
    _read_lines(begun, stream, reader)


def _read_lines(text: bytes, stream: LogStream, reader: RunReader) -> None:
    for line in lines_of([text]):
        record = Record(None, stream.host, line, stream.name)
        rank = rank_of(record)
        reader.read(record, stream.rank if rank is None else rank)


def _report(
    name: str, diagnosis: Diagnosis, lines: RunLines, job: RunJob | None, planned: PlannedRun | None
) -> RunReport:
    incident, context = locate_incident(diagnosis.root_cause, lines)
    heard = (RankState(each.rank, last_output=each.last_output) for each in lines.ranks)
    return RunReport(
        name=name,
        diagnosis=diagnosis,
        lines=lines,
        made_at=time.time(),
        version=__version__,
        job=job,
        planned=planned,
        # When a rank was last heard is told by its own lines; what others say of it comes later.
        ranks=table_of((*lines.ranks, *diagnosis.ranks, *heard)),
        incident=incident,
        context=context or (lines.context.last_lines(None) if diagnosis.verdict.is_bad else ()),
    )


def _job(found: FoundJob, times: LineTimes, diagnosis: Diagnosis) -> RunJob:
    status, root = found.status, diagnosis.root_cause
    attempt = None
    if status.state.is_final and found.backend.bills:
        attempt = times_of(status, times, root.finding.code if root else None, {})
    final = status.state.is_final
    return RunJob(
        ended_as=str(status.state) if final else status.phase,
        has_ended=final,
        seconds=status.seconds,
        hosts=status.hosts,
        processes_per_host=status.processes_per_host,
        instance_type=status.instance_type,
        phases=tuple(RunPhase(each.phase, each.started, each.ended) for each in status.transitions),
        runs_here=found.backend.runs_here,
        bills=found.backend.bills,
        billed=None if attempt is None else attempt.billed,
        usd=None if attempt is None else attempt.usd,
        parts={} if attempt is None else split_billed_time(attempt),
    )


def _called(paths: Sequence[Path]) -> str:
    """What the log files are called: the name of the first one, and how many others there are."""
    first = "standard input" if paths[0] == STDIN else str(paths[0].name or paths[0])
    more = len(paths) - 1
    return first if not more else f"{first} and {more} more"
