"""What lies in a job's source directory, as plain data for the rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launcher.jobs.specification import JobSpec


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source directory: whether it and the entry point are there, and the scripts beside it."""

    folder: str
    exists: bool
    has_entry_point: bool
    scripts: tuple[str, ...]


def read_source(job: JobSpec, folder: Path) -> SourceTree:
    """Look at the source directory of a job whose file lies in `folder`."""
    source_dir = folder / job.code.source_dir
    return SourceTree(
        folder=str(source_dir),
        exists=source_dir.is_dir(),
        has_entry_point=(source_dir / job.code.entry_point).is_file(),
        scripts=tuple(sorted(file.name for file in source_dir.glob("*.py"))) if source_dir.is_dir() else (),
    )
