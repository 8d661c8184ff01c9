"""The findings of a lint as annotations of a GitHub workflow, one line each.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions says how they are written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from launcher.failure_modes.model import Finding, Severity

_KINDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
_OF_DATA = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def workflow_commands(findings: Iterable[Finding]) -> Iterator[str]:
    """The workflow command of each finding; paths relative to the working folder, where they lie below it."""
    for finding in findings:
        properties = {"title": f"{finding.code}"}
        location = finding.location
        if location is not None:
            file = os.path.relpath(location.file)
            properties = {"file": file, "line": str(location.line), **properties}
            end = location.end_line or location.line
            properties["endLine"] = str(end)
            # GitHub takes columns only of a place within one line.
            if end == location.line:
                properties["col"] = str(location.column)
                if location.end_column is not None:
                    properties["endColumn"] = str(location.end_column)
        written = ",".join(f"{name}={value.translate(_OF_PROPERTIES)}" for name, value in properties.items())
        notes = [f"{each.message}: {each.location}" for each in finding.related]
        text = "\n".join([finding.message, *notes, finding.remedy]).translate(_OF_DATA)
        yield f"::{_KINDS[finding.severity]} {written}::{text}"
