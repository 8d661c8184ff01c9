"""`${NAME}` in a job file: values from the environment of whoever launches."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.documents.document import Document, Path

_REFERENCE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class UnknownVariableError(Exception):
    """A reference to a variable that is not set: where it stands, and what was meant."""

    def __init__(self, path: Path, message: str, remedy: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message
        self.remedy = remedy


def substitute(document: Document, variables: Mapping[str, str]) -> list[UnknownVariableError]:
    """Replace `${NAME}` in all texts of a document; `$${` stands for a literal `${`.

    What cannot be replaced stays as it is and is returned.
    """
    problems: list[UnknownVariableError] = []
    for container, key, path in _texts(document.data, ()):
        try:
            container[key] = _replaced(container[key], path, variables)
        except UnknownVariableError as problem:
            problems.append(problem)
    return problems


def _texts(value: Any, path: Path) -> Iterator[tuple[Any, Any, Path]]:
    """Every place that holds a text with a reference."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str):
            if "${" in item:
                yield value, key, (*path, key)
        else:
            yield from _texts(item, (*path, key))


def _replaced(text: str, path: Path, variables: Mapping[str, str]) -> str:
    def value_of(match: re.Match[str]) -> str:
        if match["escape"]:
            return "${" + match["name"] + "}"
        name = match["name"]
        if name in variables:
            return variables[name]
        if not _NAME.fullmatch(name):
            raise UnknownVariableError(
                path,
                f"${{{name}}} names no environment variable",
                "Write ${NAME} with letters, digits and underscores, or $${ for a literal ${.",
            )
        near = difflib.get_close_matches(name, variables, n=1)
        raise UnknownVariableError(
            path,
            f"${{{name}}}: the environment variable {name} is not set",
            f"Did you mean {near[0]}?" if near else f"Set it before the launch: export {name}=...",
        )

    return _REFERENCE.sub(value_of, text)
