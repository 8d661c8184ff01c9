"""From a job file to a `JobSpec`: all errors at once, each with its place and what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.documents.document import Document, DocumentError, Place, parse_document
from launcher.documents.validation import Problem, ProblemKind, validate
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Location, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.jobs.variables import UnknownVariableError, substitute


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job file that was read: `spec` is None where the findings hold errors."""

    file: Path
    document: Document | None
    spec: JobSpec | None
    findings: tuple[Finding, ...]

    def location(self, *path: str | int) -> Location | None:
        """Where a field stands in the file."""
        return None if self.document is None else _location(self.document.place(path))


def load_job(
    file: Path,
    overrides: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
) -> LoadedJob:
    """Read and validate a job file.

    `overrides` maps dotted paths to YAML texts (`--set`); `variables` are what `${NAME}` stands for.
    Raises OSError where the file cannot be opened, ValueError for an override that makes no sense; all
    else comes as findings.
    """
    document, unreadable = _parse(file.read_bytes(), str(file))
    if document is None:
        return LoadedJob(file, None, None, unreadable)
    for dotted, text in (overrides or {}).items():
        document.override(dotted, text, AS_WRITTEN)
    unknown = [_unknown_variable(error, document) for error in substitute(document, variables or {})]
    spec, problems = validate(JobSpec, document)
    findings = (*unknown, *(_finding(problem) for problem in problems))
    return LoadedJob(file, document, None if findings else spec, findings)


@finds(Stage.SPEC, job_file.UNREADABLE)
def _parse(raw: bytes, file: str) -> tuple[Document | None, tuple[Finding, ...]]:
    try:
        return parse_document(raw, file, AS_WRITTEN), ()
    except DocumentError as error:
        found = job_file.UNREADABLE.finding(
            Stage.SPEC, error.message, location=_location(error.place), subject=file
        )
        return None, (found,)


@finds(Stage.SPEC, job_file.UNKNOWN_FIELD, job_file.INVALID_VALUE)
def _finding(problem: Problem) -> Finding:
    unknown = problem.kind is ProblemKind.UNKNOWN_FIELD
    mode = job_file.UNKNOWN_FIELD if unknown else job_file.INVALID_VALUE
    return mode.finding(
        Stage.SPEC,
        problem.message,
        remedy=problem.remedy,
        location=_location(problem.place),
        subject=problem.field or None,
    )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def _unknown_variable(error: UnknownVariableError, document: Document) -> Finding:
    return job_file.INVALID_VALUE.finding(
        Stage.SPEC,
        error.message,
        remedy=error.remedy,
        location=_location(document.place(error.path)),
        subject=".".join(map(str, error.path)),
    )


def _location(place: Place) -> Location:
    return Location(place.file, place.line, place.column)
