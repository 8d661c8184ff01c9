"""`${NAME}` in a job file: values from the environment of whoever launches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.documents.document import Document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage
from launcher.failure_modes.registry import finds

_REFERENCE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _UnknownVariableError(Exception):
    """A reference that cannot be replaced, and what was meant; ends the replacing of its text."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def substitute(document: Document, variables: Mapping[str, str]) -> list[Finding]:
    """Replace `${NAME}` in all texts of a document; `$${` stands for a literal `${`.

    A text with a reference that cannot be replaced stays as it is, and a finding at its field says why.
    """
    findings: list[Finding] = []
    for container, key, path in _texts(document.data, ()):
        try:
            container[key] = _replaced(container[key], variables)
        except _UnknownVariableError as unknown:
            findings.append(job_file.INVALID_VALUE.at(path, unknown.message, remedy=unknown.remedy))
    return findings


def _texts(value: Any, path: Path) -> Iterator[tuple[Any, Any, Path]]:
    """Every place that holds a text with a reference."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str):
            if "${" in item:
                yield value, key, (*path, key)
        else:
            yield from _texts(item, (*path, key))


def _replaced(text: str, variables: Mapping[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        if not match["end"]:
            return match[0]
        if match["escape"]:
            return "${" + match["name"] + "}"
        name = match["name"]
        if name in variables:
            return variables[name]
        if not _NAME.fullmatch(name):
            raise _UnknownVariableError(
                f"${{{name}}} is not the name of an environment variable",
                "Write ${NAME} with letters, digits and underscores, or $${ for a literal ${.",
            )
        near = difflib.get_close_matches(name, variables, n=1)
        raise _UnknownVariableError(
            f"${{{name}}}: the environment variable {name} is not set",
            f"Did you mean {near[0]}?" if near else f"Set it before the launch: export {name}=...",
        )

    return _REFERENCE.sub(value_of, text)
