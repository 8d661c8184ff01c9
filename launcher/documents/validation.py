"""A document against its pydantic model: every error at once, with what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from launcher.documents.document import Document
from launcher.failure_modes import job_file
from launcher.failure_modes.model import FailureMode, Finding, Path, Severity, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.text.nearest import nearest

ModelT = TypeVar("ModelT", bound=BaseModel)

_REFUSAL: Final = "refusal"
_QUOTED = re.compile("'([^']*)'")
"""The values of a choice, as pydantic lists them: 'a', 'b' or 'c'."""


def refusal(
    message: str, *, remedy: str, mode: FailureMode = job_file.INVALID_VALUE, below: Path = ()
) -> PydanticCustomError:
    """What a model's validator raises to give a remedy of its own, or another failure mode.

    `below` leads from the validated field to the part of it that is wrong: the finding is placed there.
    """
    context = {"message": message, "remedy": remedy, "mode": mode, "below": below}
    return PydanticCustomError(_REFUSAL, "{message}", context)


class FilePart(BaseModel):
    """A mapping of a file that people write: unknown fields are errors, nothing changes once it is read.

    A YAML truth value is not a number: pydantic would read `instance_count: true` as 1.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_not_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        _refuse_truth(value, cls.model_fields[str(info.field_name)].annotation, ())
        return value


def _refuse_truth(value: Any, annotation: Any, below: Path) -> None:
    """Refuse a truth value where the annotation takes numbers; in lists and mappings, too."""
    if isinstance(value, bool):
        kinds = set(_alternatives(annotation))
        if kinds & {int, float} and not kinds & {bool, Any}:
            raise refusal(
                f"{str(value).lower()} is a truth value, not a number",
                remedy="Write a number, such as 1.",
                below=below,
            )
    elif isinstance(value, list | dict):
        parts = value.items() if isinstance(value, dict) else enumerate(value)
        inner = [get_args(each)[-1] for each in _alternatives(annotation) if get_origin(each) in (list, dict)]
        for key, part in parts:
            for each in inner:
                _refuse_truth(part, each, (*below, key))


def _alternatives(annotation: Any) -> Iterator[Any]:
    """The types of `A | B | None`, without what is annotated to them."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif origin in (Union, UnionType):
        for each in get_args(annotation):
            yield from _alternatives(each)
    else:
        yield annotation


@finds(Stage.SPEC, job_file.UNKNOWN_FIELD, job_file.INVALID_VALUE)
def validate(model: type[ModelT], document: Document) -> tuple[ModelT | None, list[Finding]]:
    """The document as the model, or None and every error that keeps it from being one, at its field."""
    try:
        return model.model_validate(document.data), []
    except ValidationError as error:
        return None, [_finding(detail, model) for detail in error.errors(include_url=False)]


def _finding(detail: ErrorDetails, model: type[BaseModel]) -> Finding:
    path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == _REFUSAL:
        return _refused(path, detail["ctx"])
    field = dotted(path)
    if detail["type"] == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        near = nearest(str(path[-1]), known)
        remedy = f"Did you mean `{near[0]}`?" if near else f"Known here: {', '.join(sorted(known))}."
        return job_file.UNKNOWN_FIELD.at(path, f"unknown field `{field}`", remedy=remedy)
    if detail["type"] == "missing":
        parent = dotted(path[:-1])
        remedy = f"Add `{path[-1]}`" + (f" below `{parent}`." if parent else ".")
        return job_file.INVALID_VALUE.at(path, f"`{field}` is missing", remedy=remedy)
    remedy = f"Correct the value of `{field}`." if field else "Correct the fields that the message names."
    if detail["type"] in ("enum", "literal_error") and isinstance(detail["input"], str):
        near = nearest(detail["input"], _QUOTED.findall(detail["ctx"]["expected"]))
        remedy = f"Did you mean `{near[0]}`?" if near else remedy
    if detail["type"] == "string_pattern_mismatch":
        meaning = _meaning_of(model, path)
        remedy = f"Correct the value of `{field}`: {meaning}" if meaning else remedy
    return job_file.INVALID_VALUE.at(path, _about(path, _complaint(detail)), remedy=remedy)


def _refused(path: Path, context: dict[str, Any]) -> Finding:
    """A validator's own words; the value cannot stay, whatever the severity of the failure mode is."""
    path += context["below"]
    mode: FailureMode = context["mode"]
    message = _about(path, context["message"])
    return mode.at(path, message, remedy=context["remedy"], severity=Severity.ERROR)


def _about(path: Path, message: str) -> str:
    field = dotted(path)
    return f"`{field}`: {message}" if field else message


def _complaint(detail: ErrorDetails) -> str:
    """Pydantic's message in the words of a file's author, with the value."""
    context: dict[str, Any] = detail.get("ctx", {})
    value = detail["input"]
    shown = _shown(value)
    match detail["type"]:
        case "value_error":
            return str(context["error"])
        case "string_pattern_mismatch":
            return f"{shown} does not have the form {context['pattern']}"
        case "string_too_long":
            return f"{shown} has {len(value)} characters; at most {context['max_length']} fit"
        case "enum" | "literal_error":
            return f"{shown} is not one of {context['expected'].replace(' or ', ', ')}"
        case "model_type" | "dict_type":
            return f"must be a mapping, not {shown}"
        case "list_type":
            return f"must be a list, not {shown}"
        case "bool_type" | "bool_parsing":
            return f"must be true or false, not {shown}"
        case _:
            return f"{shown} is not valid: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _shown(value: object) -> str:
    """A value as the file's author wrote it, or what it is where it has parts."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else repr(value)


def _fields_at(model: type[BaseModel], path: Path) -> list[str]:
    """The names of the fields that the schema knows at a place of the document."""
    inner = _model_in(_annotation_at(model, path))
    return list(inner.model_fields) if inner else []


def _annotation_at(model: type[BaseModel], path: Path) -> Any:
    """The type that the schema has at a place of the document."""
    annotation: Any = model
    for part in path:
        inner = _model_in(annotation)
        if inner is not None and str(part) in inner.model_fields and annotation is not None:
            annotation = inner.model_fields[str(part)].annotation
    return annotation


def _meaning_of(model: type[BaseModel], path: Path) -> str | None:
    """What the schema says of the field at a path: a pattern alone tells nobody what to write."""
    inner = _model_in(_annotation_at(model, path[:-1]))
    known = inner.model_fields.get(str(path[-1])) if inner and path else None
    return known.description if known else None


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `list[Model]` or `dict[str, Annotated[Model, ...]]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in reversed(get_args(annotation)))
    return next((model for model in found if model is not None), None)
