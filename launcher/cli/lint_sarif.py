"""The findings of a lint in SARIF 2.1.0 (OASIS), as code scanning services read it.

Paths are relative to the folder in which the command was run. A result's fingerprint is made of its code, its
file and the words of its line, so that it stays what it was when lines are added above it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

from launcher.cli.lint_view import line_of
from launcher.failure_modes.catalogue import CATALOGUE
from launcher.failure_modes.model import Edit, FailureMode, Finding, Fix, Location, Severity
from launcher.rules.script.descriptions import descriptions_of
from launcher.version import __version__

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "%SRCROOT%"
"""What relative paths begin at, by the name that GitHub has for it."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "note"}


def sarif(findings: Iterable[Finding], here: Path) -> dict[str, Any]:
    """The log of one run; accepted findings are in it as suppressed ones."""
    listed = list(findings)
    codes = sorted({finding.code for finding in listed})
    prints = _fingerprints(listed, here)
    results = [
        _result(finding, codes.index(finding.code), print_, here)
        for finding, print_ in zip(listed, prints, strict=True)
    ]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "slipway",
                        "semanticVersion": __version__,
                        "rules": [_rule(CATALOGUE[code]) for code in codes],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    BASE: {"description": {"text": "The folder in which `launch lint` was run."}}
                },
                "results": results,
            }
        ],
    }


def _rule(mode: FailureMode) -> dict[str, Any]:
    sources = "".join(f"\n- {source.title}" for source in mode.sources)
    found = "".join(
        f"- {each.finds}\n  - Bad: {each.bad}\n  - Good: {each.good}\n" for each in descriptions_of(mode.code)
    )
    more = (f"In a script:\n\n{found}\n" if found else "") + f"Sources:\n{sources}"
    return {
        "id": mode.code,
        "shortDescription": {"text": mode.title},
        "fullDescription": {"text": mode.cause},
        "help": {
            "text": f"{mode.cause}\n\n{mode.remedy}\n\n{more}",
            "markdown": f"**Cause.** {mode.cause}\n\n**Remedy.** {mode.remedy}\n\n{more}",
        },
        "defaultConfiguration": {"level": _LEVELS[mode.severity]},
    }


def _result(finding: Finding, index: int, print_: str, here: Path) -> dict[str, Any]:
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": f"{finding.message}. {finding.remedy}"},
        "partialFingerprints": {"primaryLocationLineHash": print_},
    }
    if finding.location is not None:
        result["locations"] = [{"physicalLocation": _physical(finding.location, here)}]
    if finding.related:
        result["relatedLocations"] = [
            {
                "id": number,
                "physicalLocation": _physical(each.location, here),
                "message": {"text": each.message},
            }
            for number, each in enumerate(finding.related, start=1)
        ]
    if finding.ignored:
        result["suppressions"] = [{"kind": "inSource" if finding.ignored_in_source else "external"}]
    if finding.fix is not None:
        result["fixes"] = [_fix(finding.fix, finding.remedy, here)]
    return result


def _physical(location: Location, here: Path) -> dict[str, Any]:
    region = {"startLine": location.line, "startColumn": location.column}
    if location.end_line is not None and location.end_column is not None:
        region |= {"endLine": location.end_line, "endColumn": location.end_column}
    return {"artifactLocation": _artifact(location.file, here), "region": region}


def _artifact(file: str, here: Path) -> dict[str, str]:
    """A file below `here` relative to it; any other by its whole URI."""
    path = Path(file)
    if path.is_absolute() and path.is_relative_to(here):
        path = path.relative_to(here)
    if path.is_absolute() or ".." in path.parts:
        return {"uri": (here / path).resolve().as_uri()}
    return {"uri": quote(PurePath(path).as_posix(), errors="replace"), "uriBaseId": BASE}


def _fix(fix: Fix, remedy: str, here: Path) -> dict[str, Any]:
    files: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        files.setdefault(edit.file, []).append(edit)
    return {
        "description": {"text": remedy},
        "artifactChanges": [
            {
                "artifactLocation": _artifact(file, here),
                "replacements": [
                    {
                        "deletedRegion": {"charOffset": edit.start, "charLength": edit.end - edit.start},
                        "insertedContent": {"text": edit.text},
                    }
                    for edit in edits
                ],
            }
            for file, edits in files.items()
        ],
    }


def _fingerprints(findings: Sequence[Finding], here: Path) -> list[str]:
    """One for each finding; equal lines of a file are told apart by their number among themselves."""
    seen: Counter[str] = Counter()
    prints = []
    for finding in findings:
        location = finding.location
        file, line = ("", "") if location is None else (location.file, line_of(location))
        words = " ".join((finding.code, str(_artifact(file, here).get("uri")), *line.split()))
        digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:16]
        seen[digest] += 1
        prints.append(f"{digest}:{seen[digest]}")
    return prints
