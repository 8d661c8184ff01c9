"""A job's source directory as it would be packed: its digest for the plan, and what keeps it from working."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Finding, Location, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.destination import PLACEHOLDER_CODE
from launcher.planning.strategies.catalogue import strategy_of
from launcher.source.errors import SourceError
from launcher.source.files import SourceFile, largest, source_files
from launcher.source.packaging import code_digest
from launcher.text.sizes import size_in_words

LARGE_BYTES = 100_000_000
"""More code than this is data that came along: it is read for every plan and sent with every change."""


@dataclass(frozen=True, slots=True)
class JobCode:
    """A job's code as it was read: its digest, and what was found about what is packed."""

    digest: str
    findings: tuple[Finding, ...] = ()


@finds(Stage.SPEC, job_runtime.ENTRY_POINT_MISSING)
def read_code(job: JobSpec, folder: Path, locate: Callable[..., Location | None]) -> JobCode:
    """Read the code of a job; `folder` is the job file's.

    Where the code cannot be packed the digest is a placeholder. A folder that is not there is left to the
    rule about it. Reads every file that would be packed, and stops at 5 GB without reading.
    """
    source_dir = folder / job.code.source_dir
    if not source_dir.is_dir():
        return JobCode(PLACEHOLDER_CODE)
    try:
        files = source_files(source_dir)
        digest = code_digest(files, strategy_of(job).archive_name)
    except SourceError as error:
        unpackable = _finding(error.message.rstrip("."), error.remedy, "source_dir", locate)
        return JobCode(PLACEHOLDER_CODE, (unpackable,))
    found = (*_left_out(job, source_dir, files, locate), *_too_large(source_dir, files, locate))
    return JobCode(digest, found)


def _left_out(
    job: JobSpec, source_dir: Path, files: Sequence[SourceFile], locate: Callable[..., Location | None]
) -> Iterator[Finding]:
    """An entry point that is on the disk and yet not in the archive."""
    entry_point = job.code.entry_point
    name = posixpath.normpath(entry_point)
    if not (source_dir / entry_point).is_file() or any(file.name == name for file in files):
        return
    if posixpath.isabs(entry_point) or name.startswith("../"):
        message = (
            f"the entry point {entry_point} is outside of {source_dir}, and only what is inside is packed"
        )
        remedy = "Give `code.entry_point` relative to `code.source_dir`, without `..`."
    else:
        message = f"the entry point {entry_point} is left out by .gitignore or .slipwayignore"
        remedy = f"Change the pattern, or add the line !{name} to {source_dir / '.slipwayignore'}."
    yield _finding(message, remedy, "entry_point", locate)


def _too_large(
    source_dir: Path, files: Sequence[SourceFile], locate: Callable[..., Location | None]
) -> Iterator[Finding]:
    total = sum(file.size for file in files)
    if total <= LARGE_BYTES:
        return
    most = ", ".join(f"{name} ({size_in_words(size)})" for name, size in largest(files))
    yield _finding(
        f"the source directory {source_dir} holds {total / 1e6:,.0f} MB that every host downloads, most in "
        f"{most}",
        "Leave out by .slipwayignore what the job does not need; give data as an input.",
        "source_dir",
        locate,
        Severity.WARNING,
    )


def _finding(
    message: str,
    remedy: str,
    field: str,
    locate: Callable[..., Location | None],
    severity: Severity = Severity.ERROR,
) -> Finding:
    return job_runtime.ENTRY_POINT_MISSING.finding(
        Stage.SPEC,
        message,
        remedy=remedy,
        severity=severity,
        location=locate("code", field),
        subject=f"code.{field}",
    )
