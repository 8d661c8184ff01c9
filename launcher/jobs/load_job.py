"""From a job file to a `JobSpec`: all errors at once, each with its place and what was meant.

`${NAME}` in it is a value from the environment of whoever launches. Such a value may be a secret, and nothing
here can tell. So what is shown of a job (findings, plans, refusals) says `${NAME}` where a text would repeat
it; what is sent has the value.

`${SM_MODEL_DIR}` and the like are folders of the container, by the names that scripts know. They are the
job's, not the launcher's: where the boot starts the script they stay in the request as they are, and the boot
(`slipway/references.py`) puts in what its container has, on AWS or on this machine. The images' toolkit does
not, so that the plan puts in the paths that SageMaker documents.
"""

from __future__ import annotations

import json
import pathlib
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from launcher.documents import Document, DocumentError, parse_document, read_document, validate_document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Location, Path, Refusal, Stage, dotted
from launcher.failure_modes.registry import CATALOGUE, finds
from launcher.frozen import frozen
from launcher.jobs.script_inputs import (
    CHECKPOINT_DIR_VARIABLE,
    CODE_FOLDER,
    CONTAINER_ROOT,
    DEFAULT_CHECKPOINT_PATH,
    OUTPUT_DATA,
    channel_folder,
)
from launcher.jobs.specification import AS_WRITTEN, JobSpec
from launcher.text.values import nearest

# What came from variables, and texts for people with the variables' names in place of the values.


SHORTEST_ANYWHERE: Final = 6
"""Characters. Shorter values stand in any text by chance: they are looked for only in what is said of their
own field."""

SHORTEST_IN_WORDS: Final = 8
"""Characters. Shorter values are taken for a value only where they are words of their own."""

_SEPARATORS = re.compile(r"[/:@=,;\s]+")
_REGION = re.compile(r"[a-z]{2,4}(-[a-z]+)+-\d+")
_CUT = "..."


@frozen
class Substitution:
    """One text of the job file in which variables were replaced.

    `path` leads to it, `written` is the text with the references, `text` the one with the values; `values`
    are those of the variables in it, by name.
    """

    path: Path
    written: str
    text: str
    values: Mapping[str, str]


@dataclass(frozen=True)
class Substitutions:
    """All that was replaced in a job file."""

    made: tuple[Substitution, ...] = ()

    def shown(self, text: str, *paths: Path) -> str:
        """The text with `${NAME}` for each value in it; `paths` are the fields that it speaks of.

        Values of six characters and more are replaced in any text, shorter ones where the text is about
        their field, as words of their own. The parts of a URI or ARN count as well, and so does a value
        that the text cuts short.
        """
        if not self.made:
            return text
        near = [each for each in self.made if any(_are_related(each.path, path) for path in paths)]
        for each in self.made:
            text = _without_cut_end(text, each)
        names = {**_replacements(near, 1), **self._anywhere} if near else self._anywhere
        return _search_pattern(names).sub(lambda match: names[match[0]], text) if names else text

    def finding(self, found: Finding) -> Finding:
        """The finding without the values; what the catalogue says in general stays."""
        paths = () if not found.path else (found.path,)
        mode = CATALOGUE.get(found.code)
        general = mode is not None and found.remedy == mode.remedy
        return replace(
            found,
            message=self.shown(found.message, *paths),
            remedy=found.remedy if general else self.shown(found.remedy, *paths),
            subject=None if found.subject is None else self.shown(found.subject, *paths),
        )

    def value(self, value: Any, path: Path) -> Any:
        """A single value that came from the field at `path`, as it is shown."""
        if isinstance(value, str):
            return self.shown(value, path)
        # A number or a truth value was parsed from what stands there.
        whole = (each.written for each in self.made if _begins_with(path, each.path))
        return next(whole, value)

    @contextmanager
    def refusals(self) -> Iterator[None]:
        """Let refusals from within pass without the values."""
        try:
            yield
        except Refusal as refusal:
            message, remedy = self.shown(refusal.message), self.shown(refusal.remedy)
            if (message, remedy) == (refusal.message, refusal.remedy):
                raise
            refusal.message, refusal.remedy, refusal.args = message, remedy, (f"{message} {remedy}",)
            # The cause has AWS's words with the values, and a traceback would show them.
            raise refusal from None

    @cached_property
    def _anywhere(self) -> dict[str, str]:
        return _replacements(self.made, SHORTEST_ANYWHERE)


NOTHING_REPLACED: Final = Substitutions()
"""Of a job file without variables."""


def _replacements(made: Sequence[Substitution], shortest: int) -> dict[str, str]:
    """What stands for each text to be replaced; whole fields go before the values in them."""
    names: dict[str, str] = {}
    for each in made:
        _add_replacement(names, each.text, each.written, shortest)
    for each in made:
        for name, value in each.values.items():
            _add_replacement(names, value, f"${{{name}}}", shortest)
    for each in made:
        for name, value in each.values.items():
            for part in _SEPARATORS.split(value):
                # A region is said of many things besides.
                if len(part) >= SHORTEST_IN_WORDS and not _REGION.fullmatch(part):
                    _add_replacement(names, part, f"${{{name}}}", shortest)
    return names


def _add_replacement(names: dict[str, str], value: str, shown: str, shortest: int) -> None:
    """Add a value as it is, and as messages write it."""
    value = value.strip()
    quoted = (repr(value), json.dumps(value), json.dumps(value, ensure_ascii=False))
    for form in (value, *(text[1:-1] for text in quoted)):
        if len(form) >= shortest:
            names.setdefault(form, shown)


def _search_pattern(names: Mapping[str, str]) -> re.Pattern[str]:
    """All of them at once, the longest first: what was put in is not looked at again."""
    return re.compile("|".join(map(_search_form, sorted(names, key=len, reverse=True))))


def _search_form(text: str) -> str:
    literal = re.escape(text)
    if len(text) >= SHORTEST_IN_WORDS:
        return literal
    # `2` stands neither in `32` nor in `2,424.10`.
    before = r"(?<!\w)(?<!\d[.,])" if re.match(r"\w", text) else ""
    after = r"(?!\w|[.,]\d)" if re.search(r"\w\Z", text) else ""
    if len(text) < 3 and not text.isdigit():
        # `a` and `no` are words of the message.
        before, after = "(?<=['\"`])", "(?=['\"`])"
    return f"{before}{literal}{after}"


def _without_cut_end(text: str, made: Substitution) -> str:
    """The text without the beginning of a replaced text that is followed by dots."""
    values = {made.text: made.written, **{value: f"${{{name}}}" for name, value in made.values.items()}}
    for value, shown in values.items():
        start = value[:SHORTEST_IN_WORDS]
        at = text.find(start) if len(start) == SHORTEST_IN_WORDS else -1
        while at >= 0:
            length = _common_length(text[at:], value)
            if length < len(value) and text.startswith(_CUT, at + length):
                text = f"{text[:at]}{shown}{text[at + length + len(_CUT) :]}"
            at = text.find(start, at + 1)
    return text


def _common_length(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _are_related(one: Path, other: Path) -> bool:
    return _begins_with(one, other) or _begins_with(other, one)


def _begins_with(path: Path, beginning: Path) -> bool:
    return bool(beginning) and path[: len(beginning)] == beginning


@frozen
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
    text: str | None = None,
) -> LoadedJob:
    """Read and validate a job file.

    `overrides` maps dotted paths to YAML texts (`--set`); `variables` are what `${NAME}` stands for. `text`
    is taken for what the file holds, where it has not been written.
    Raises OSError where the file cannot be read or is not a regular one, ValueError for an override that
    makes no sense; all else comes as findings.
    """
    document, unreadable = _read_job_file(file, text)
    if document is None:
        return LoadedJob(file, None, None, unreadable)
    for field, text in (overrides or {}).items():
        document.override(field, text, AS_WRITTEN)
    substitutions, unknown = substitute_variables(document, variables or Variables({}))
    spec, invalid = validate_document(JobSpec, document)
    left = {found.path for found in unknown}
    # What stands where a variable was left as it is was not meant, and says nothing of its own.
    found = (*unknown, *(each for each in invalid if each.path not in left))
    findings = tuple(substitutions.finding(each.located(document.location)) for each in found)
    return LoadedJob(file, document, None if findings else spec, findings, substitutions)


@finds(Stage.SPEC, job_file.UNREADABLE)
def _read_job_file(
    file: pathlib.Path, text: str | None = None
) -> tuple[Document | None, tuple[Finding, ...]]:
    try:
        if text is not None:
            return parse_document(text, str(file), AS_WRITTEN), ()
        return read_document(file, AS_WRITTEN), ()
    except DocumentError as error:
        found = job_file.UNREADABLE.finding(
            Stage.SPEC, error.message, location=error.location, subject=str(file)
        )
        return None, (found,)


# `${NAME}`: values from the environment of whoever launches.


_VARIABLE_REFERENCE = re.compile(r"\$(?P<escape>\$)?\{(?P<name>[^}]*)(?P<end>\}?)")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OFF = {"", "0", "false"}


@frozen
class Variables:
    """What `${NAME}` stands for: `values` by name, of which a job file may have the `allowed` ones.

    None allows all but the launcher's own: those of AWS, which no list allows.
    """

    values: Mapping[str, str]
    allowed: Collection[str] | None = None


def allowed_variables(
    environment: Mapping[str, str], named: Collection[str] | None
) -> Collection[str] | None:
    """The variables that a job file may have, by the names that the user gave; None for all.

    In CI, where whoever writes the job file need not be whom the variables were given, it is none but
    those named. CI is where `CI` is set, and not to `false` or `0`.
    """
    if named is not None:
        return named
    return () if environment.get("CI", "").strip().lower() not in _OFF else None


def is_variable_name(text: str) -> bool:
    """Whether a text can be the name of a variable."""
    return _VARIABLE_NAME.fullmatch(text) is not None


class _NotReplaced(Exception):
    """A reference that cannot be replaced, and what was meant; ends the replacing of its text."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def substitute_variables(document: Document, variables: Variables) -> tuple[Substitutions, list[Finding]]:
    """Replace `${NAME}` in all texts of a document; `$${` stands for a literal `${`.

    Folders of the container (`${SM_MODEL_DIR}`) stay as they are where the script is given them.
    A text with a reference that cannot be replaced stays as it is, and a finding at its field says why.
    """
    made: list[Substitution] = []
    findings: list[Finding] = []
    for container, key, path in _texts_with_references(document.data, ()):
        written = container[key]
        used: dict[str, str] = {}
        try:
            container[key] = _replace_references(written, variables, used, to_script=is_given_to_script(path))
        except _NotReplaced as left:
            findings.append(job_file.INVALID_VALUE.at(path, left.message, remedy=left.remedy))
            continue
        if used:
            made.append(Substitution(_field(path), written, container[key], used))
    return Substitutions(tuple(made)), findings


def _texts_with_references(value: Any, path: Path) -> Iterator[tuple[Any, Any, Path]]:
    """Every place that holds a text with a reference."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, str):
            if "${" in item:
                yield value, key, (*path, key)
        else:
            yield from _texts_with_references(item, (*path, key))


def _field(path: Path) -> Path:
    """The field that a job has in the end: limits may be named by their unit."""
    *above, last = path
    return (*above, last.removesuffix("_seconds")) if above == ["limits"] and isinstance(last, str) else path


def _replace_references(text: str, variables: Variables, used: dict[str, str], *, to_script: bool) -> str:
    """The text with the values, which are noted in `used`. Raises _NotReplaced.

    In what goes `to_script`, folders of the container keep their names, and nothing else is taken for one.
    """

    def value_of(match: re.Match[str]) -> str:
        if not match["end"]:
            return match[0]
        name = match["name"]
        if match["escape"]:
            literal = "${" + name + "}"
            return escape_folders(literal) if to_script else literal
        if to_script and is_folder_name(name):
            return match[0]
        _check(name, variables)
        used[name] = variables.values[name]
        return escape_folders(used[name]) if to_script else used[name]

    return _VARIABLE_REFERENCE.sub(value_of, text)


def _check(name: str, variables: Variables) -> None:
    if not is_variable_name(name):
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
            f"{', '.join(f'`{dotted(field)}`' for field in SCRIPT_FIELDS)}; elsewhere it is an "
            "environment variable "
            "of whoever launches, and it is not set",
            "Write the path as it is in the container, such as /opt/ml/model.",
        )
    if name not in variables.values:
        near = nearest(name, variables.values)
        raise _NotReplaced(
            f"${{{name}}}: the environment variable {name} is not set",
            f"Did you mean {near[0]}?" if near else f"Set it before the launch: export {name}=...",
        )


# `${SM_MODEL_DIR}` and the like: folders of the container.


SCRIPT_FIELDS: Final = (("environment",), ("hyperparameters",), ("code", "arguments"))
"""The fields whose texts reach the script."""

_FOLDER_NAME = rf"SM_[A-Za-z0-9_.-]+|{CHECKPOINT_DIR_VARIABLE}"
_FOLDER_REFERENCE = re.compile(rf"(?P<escape>\$?)\$\{{(?P<name>{_FOLDER_NAME})\}}")
_LITERAL_FOLDER = re.compile(rf"\$\{{(?:{_FOLDER_NAME})\}}")


def is_folder_name(name: str) -> bool:
    """Whether a name has the form of those that scripts are told folders by."""
    return re.fullmatch(_FOLDER_NAME, name) is not None


def is_given_to_script(path: Path) -> bool:
    """Whether a text of the job file, by the path to it, may name folders."""
    return any(path[: len(field)] == field for field in SCRIPT_FIELDS)


def escape_folders(text: str) -> str:
    """The text so that nothing in it is taken for a folder: `$${SM_X}` for `${SM_X}`."""
    return _LITERAL_FOLDER.sub(lambda match: f"${match[0]}", text)


def list_folders(job: JobSpec, checkpoints: str = DEFAULT_CHECKPOINT_PATH) -> dict[str, str]:
    """The folders of the job's container by the names of their variables, as SageMaker documents them.

    `checkpoints` is where the script writes its own.
    """
    channels = {name: channel_folder(name) for name in job.inputs}
    return {
        "SM_MODEL_DIR": f"{CONTAINER_ROOT}/model",
        "SM_INPUT_DIR": f"{CONTAINER_ROOT}/input",
        "SM_INPUT_DATA_DIR": f"{CONTAINER_ROOT}/input/data",
        "SM_INPUT_CONFIG_DIR": f"{CONTAINER_ROOT}/input/config",
        "SM_OUTPUT_DIR": f"{CONTAINER_ROOT}/output",
        "SM_OUTPUT_DATA_DIR": OUTPUT_DATA,
        "SM_OUTPUT_INTERMEDIATE_DIR": f"{CONTAINER_ROOT}/output/intermediate",
        "SM_MODULE_DIR": CODE_FOLDER,
        "SM_SOURCE_DIR": CODE_FOLDER,
        "SM_CHECKPOINT_DIR": checkpoints,
        CHECKPOINT_DIR_VARIABLE: checkpoints,
        **{f"SM_CHANNEL_{name.replace('-', '_').upper()}": folder for name, folder in channels.items()},
        **{f"SM_CHANNEL_{name.upper()}": folder for name, folder in channels.items()},
    }


def replace_folders(value: Any, folders: Mapping[str, str]) -> Any:
    """The value with the folders in place of their names, in all its texts; unknown names stay.

    `$${SM_X}` becomes a literal `${SM_X}`. A text without any stays what it is, with its type.
    """
    if isinstance(value, dict):
        return {key: replace_folders(item, folders) for key, item in value.items()}
    if isinstance(value, list):
        return [replace_folders(item, folders) for item in value]
    if not isinstance(value, str) or "${" not in value:
        return value

    def folder_of(match: re.Match[str]) -> str:
        return match[0][1:] if match["escape"] else folders.get(match["name"], match[0])

    return _FOLDER_REFERENCE.sub(folder_of, value)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_folders(job: JobSpec) -> Iterator[Finding]:
    """Names that stand for no folder of the job's container, such as a channel that it does not have."""
    known = list_folders(job)
    fields: dict[Path, Any] = {
        ("environment",): job.environment,
        ("hyperparameters",): job.hyperparameters,
        ("code", "arguments"): job.code.arguments,
    }
    for path, value in (
        (path, text) for field in fields for path, text in _texts_with_folders(fields[field], field)
    ):
        for match in _FOLDER_REFERENCE.finditer(value):
            if match["escape"] or match["name"] in known:
                continue
            near = nearest(match["name"], known)
            listed = f"There are: {', '.join(sorted(known))}."
            yield job_file.INVALID_VALUE.at(
                path,
                f"${{{match['name']}}} is no folder of this job's container, and would stop the script there",
                remedy=(f"Did you mean ${{{near[0]}}}? " if near else "")
                + f"{listed} A channel has one where it is in `inputs`; $${{ is a literal ${{.",
            )


def _texts_with_folders(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _texts_with_folders(item, (*path, key))
    if isinstance(value, str) and "${" in value:
        yield path, value


def with_folders(job: JobSpec) -> JobSpec:
    """The job as its script gets it: with the container's folders in place of their names."""
    folders = list_folders(job)
    code = {"arguments": replace_folders(job.code.arguments, folders)}
    given = {
        "code": job.code.model_copy(update=code),
        "environment": replace_folders(job.environment, folders),
        "hyperparameters": replace_folders(job.hyperparameters, folders),
    }
    return job.model_copy(update=given)


def import_folders(job: JobSpec) -> tuple[str, ...] | None:
    """The folders of the source that the job's PYTHONPATH names, from that of the source itself.

    None where one of them lies elsewhere, and may hold anything.
    """
    found = list[str]()
    for folder in filter(None, str(with_folders(job).environment.get("PYTHONPATH", "")).split(":")):
        place = posixpath.relpath(posixpath.join(CODE_FOLDER, folder), CODE_FOLDER)
        if "$" in place or place.partition("/")[0] == "..":
            return None
        found.append(place)
    return tuple(found)
