"""`${NAME}` in a job file: values from the environment of whoever launches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.documents.document import Document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.jobs.container_folders import FIELDS, is_folder_name, literally, reaches_the_script
from launcher.jobs.substitutions import Substitution, Substitutions
from launcher.text.nearest import nearest

_REFERENCE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^}]*)(?P<end>\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OFF = {"", "0", "false"}


@dataclass(frozen=True, slots=True)
class Variables:
    """What `${NAME}` stands for: `values` by name, of which a job file may have the `allowed` ones.

    None allows all but the launcher's own: those of AWS, which no list allows.
    """

    values: Mapping[str, str]
    allowed: Collection[str] | None = None


def allowed_by(environment: Mapping[str, str], named: Collection[str] | None) -> Collection[str] | None:
    """The variables that a job file may have, by the names that the user gave; None for all.

    In CI, where whoever writes the job file need not be whom the variables were given, it is none but
    those named. CI is where `CI` is set, and not to `false` or `0`.
    """
    if named is not None:
        return named
    return () if environment.get("CI", "").strip().lower() not in _OFF else None


def is_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return _NAME.fullmatch(text) is not None


class _NotReplaced(Exception):
    """A reference that cannot be replaced, and what was meant; ends the replacing of its text."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def substitute(document: Document, variables: Variables) -> tuple[Substitutions, list[Finding]]:
    """Replace `${NAME}` in all texts of a document; `$${` stands for a literal `${`.

    Folders of the container (`${SM_MODEL_DIR}`) stay as they are where the script is given them.
    A text with a reference that cannot be replaced stays as it is, and a finding at its field says why.
    """
    made: list[Substitution] = []
    findings: list[Finding] = []
    for container, key, path in _texts(document.data, ()):
        written = container[key]
        used: dict[str, str] = {}
        try:
            container[key] = _replaced(written, variables, used, to_script=reaches_the_script(path))
        except _NotReplaced as left:
            findings.append(job_file.INVALID_VALUE.at(path, left.message, remedy=left.remedy))
            continue
        if used:
            made.append(Substitution(_field(path), written, container[key], used))
    return Substitutions(tuple(made)), findings


def _texts(value: Any, path: Path) -> Iterator[tuple[Any, Any, Path]]:
    """Every place that holds a text with a reference."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str):
            if "${" in item:
                yield value, key, (*path, key)
        else:
            yield from _texts(item, (*path, key))


def _field(path: Path) -> Path:
    """The field that a job has in the end: limits may be named by their unit."""
    *above, last = path
    return (*above, last.removesuffix("_seconds")) if above == ["limits"] and isinstance(last, str) else path


def _replaced(text: str, variables: Variables, used: dict[str, str], *, to_script: bool) -> str:
    """The text with the values, which are noted in `used`. Raises _NotReplaced.

    In what goes `to_script`, folders of the container keep their names, and nothing else is taken for one.
    """

    def value_of(match: re.Match[str]) -> str:
        if not match["end"]:
            return match[0]
        name = match["name"]
        if match["escape"]:
            literal = "${" + name + "}"
            return literally(literal) if to_script else literal
        if to_script and is_folder_name(name):
            return match[0]
        _check(name, variables)
        used[name] = variables.values[name]
        return literally(used[name]) if to_script else used[name]

    return _REFERENCE.sub(value_of, text)


def _check(name: str, variables: Variables) -> None:
    if not is_name(name):
        raise _NotReplaced(
            f"${{{name}}} is not the name of an environment variable",
            "Write ${NAME} with letters, digits and underscores, or $${ for a literal ${.",
        )
    if name.upper().startswith("AWS_"):
        raise _NotReplaced(
            f"${{{name}}} is a variable of the launcher's own AWS session: its credentials would be stored "
            "in the job, where everyone who may describe it reads them",
            "Give the job a role for what it does on AWS (`role_arn`, or its cluster's), and write what is "
            "no secret, such as a region, into the file.",
        )
    if variables.allowed is not None and name not in variables.allowed:
        raise _NotReplaced(
            f"${{{name}}} is not replaced: "
            + (
                "it is not among the variables that --allow-env names"
                if variables.allowed
                else "in CI (the variable CI is set) a job file has only the variables that it is given"
            ),
            f"If the job file may have it, add --allow-env {name}.",
        )
    if name not in variables.values and is_folder_name(name):
        raise _NotReplaced(
            f"${{{name}}} stands for a folder of the container in "
            f"{', '.join(f'`{dotted(field)}`' for field in FIELDS)}; elsewhere it is an environment variable "
            "of whoever launches, and it is not set",
            "Write the path as it is in the container, such as /opt/ml/model.",
        )
    if name not in variables.values:
        near = nearest(name, variables.values)
        raise _NotReplaced(
            f"${{{name}}}: the environment variable {name} is not set",
            f"Did you mean {near[0]}?" if near else f"Set it before the launch: export {name}=...",
        )
