"""The source directory and the script that the job starts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from launcher.failure_modes import job_runtime
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_runtime.ENTRY_POINT_MISSING)
def entry_point_is_there(subject: JobSubject) -> Iterator[Finding]:
    """Without its script a job downloads, starts and fails on every host."""
    source, entry_point = subject.source, subject.job.code.entry_point
    if not source.exists:
        yield job_runtime.ENTRY_POINT_MISSING.finding(
            Stage.SPEC,
            f"the source directory {source.folder} does not exist",
            remedy="Correct `code.source_dir`; it is relative to the job file.",
            location=subject.locate("code", "source_dir"),
            subject="code.source_dir",
        )
    elif not source.has_entry_point:
        near = difflib.get_close_matches(entry_point, source.scripts, n=1)
        scripts = ", ".join(source.scripts) or "no scripts"
        there = f"Did you mean {near[0]}?" if near else f"There are: {scripts}."
        yield job_runtime.ENTRY_POINT_MISSING.finding(
            Stage.SPEC,
            f"the entry point {entry_point} is not in {source.folder}",
            remedy=f"Correct `code.entry_point`, which is relative to `code.source_dir`. {there}",
            location=subject.locate("code", "entry_point"),
            subject="code.entry_point",
        )
