"""From a job file to a `JobSpec`: all errors at once, each with its place and what was meant."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.documents.document import Document, DocumentError, read_document
from launcher.documents.validation import validate
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Location, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.jobs.substitutions import NOTHING_REPLACED, Substitutions
from launcher.jobs.variables import Variables, substitute


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job file that was read: `spec` is None where the findings hold errors.

    `substitutions` are the values from variables in it, which what is shown of the job leaves out.
    """

    file: pathlib.Path
    document: Document | None
    spec: JobSpec | None
    findings: tuple[Finding, ...]
    substitutions: Substitutions = NOTHING_REPLACED

    def location(self, *path: str | int) -> Location | None:
        """Where a field stands in the file; None where the file could not be read."""
        return None if self.document is None else self.document.location(*path)


def load_job(
    file: pathlib.Path,
    overrides: Mapping[str, str] | None = None,
    variables: Variables | None = None,
) -> LoadedJob:
    """Read and validate a job file.

    `overrides` maps dotted paths to YAML texts (`--set`); `variables` are what `${NAME}` stands for.
    Raises OSError where the file cannot be read or is not a regular one, ValueError for an override that
    makes no sense; all else comes as findings.
    """
    document, unreadable = _read(file)
    if document is None:
        return LoadedJob(file, None, None, unreadable)
    for field, text in (overrides or {}).items():
        document.override(field, text, AS_WRITTEN)
    substitutions, unknown = substitute(document, variables or Variables({}))
    spec, invalid = validate(JobSpec, document)
    left = {found.path for found in unknown}
    # What stands where a variable was left as it is was not meant, and says nothing of its own.
    found = (*unknown, *(each for each in invalid if each.path not in left))
    findings = tuple(substitutions.finding(each.located(document.location)) for each in found)
    return LoadedJob(file, document, None if findings else spec, findings, substitutions)


@finds(Stage.SPEC, job_file.UNREADABLE)
def _read(file: pathlib.Path) -> tuple[Document | None, tuple[Finding, ...]]:
    try:
        return read_document(file, AS_WRITTEN), ()
    except DocumentError as error:
        found = job_file.UNREADABLE.finding(
            Stage.SPEC, error.message, location=error.location, subject=str(file)
        )
        return None, (found,)
