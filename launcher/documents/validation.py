"""A document against its pydantic model: every problem at once, each with its place and what was meant."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from launcher.documents.document import Document, Path, Place

ModelT = TypeVar("ModelT", bound=BaseModel)

_REFUSAL: Final = "refusal"


class ProblemKind(StrEnum):
    """What sort of mistake it is."""

    UNKNOWN_FIELD = "unknown field"
    MISSING_FIELD = "missing field"
    INVALID_VALUE = "invalid value"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a document: `field` is dotted and empty for the whole file.

    `code` is the failure mode's, where the check that found it named one (`refusal`).
    """

    kind: ProblemKind
    field: str
    message: str
    remedy: str
    place: Place
    code: str | None = None


def refusal(message: str, *, remedy: str, code: str | None = None, below: Path = ()) -> PydanticCustomError:
    """What a model's validator raises to give a remedy of its own, and a failure mode's code.

    `below` leads from the validated field to the part of it that is wrong: the problem is placed there.
    """
    told = {"message": message, "remedy": remedy, "code": code, "below": below}
    return PydanticCustomError(_REFUSAL, "{message}", told)


def validate(model: type[ModelT], document: Document) -> tuple[ModelT | None, list[Problem]]:
    """The document as the model, or all that keeps it from being one."""
    try:
        return model.model_validate(document.data), []
    except ValidationError as error:
        return None, [_problem(detail, document, model) for detail in error.errors(include_url=False)]


def _problem(detail: ErrorDetails, document: Document, model: type[BaseModel]) -> Problem:
    context: dict[str, Any] = detail.get("ctx", {})
    refused = detail["type"] == _REFUSAL
    path: Path = tuple(part for part in detail["loc"] if part != "[key]")
    if refused:
        path += context["below"]
    field = ".".join(str(part) for part in path)
    place = document.place(path)
    if detail["type"] == "extra_forbidden":
        known = _fields_at(model, path[:-1])
        near = difflib.get_close_matches(str(path[-1]), known, n=1, cutoff=0.6)
        remedy = f"Did you mean `{near[0]}`?" if near else f"Known here: {', '.join(sorted(known))}."
        return Problem(ProblemKind.UNKNOWN_FIELD, field, f"unknown field `{field}`", remedy, place)
    if detail["type"] == "missing":
        below = ".".join(map(str, path[:-1]))
        remedy = f"Add `{path[-1]}`" + (f" below `{below}`." if below else ".")
        return Problem(ProblemKind.MISSING_FIELD, field, f"`{field}` is missing", remedy, place)
    prefix = f"`{field}`: " if field else ""
    if refused:
        message = prefix + context["message"]
        return Problem(ProblemKind.INVALID_VALUE, field, message, context["remedy"], place, context["code"])
    remedy = f"Correct the value of `{field}`." if field else "Correct the fields that the message names."
    return Problem(ProblemKind.INVALID_VALUE, field, prefix + _complaint(detail), remedy, place)


def _complaint(detail: ErrorDetails) -> str:
    """Pydantic's message in the words of a file's author, with the value."""
    context: dict[str, Any] = detail.get("ctx", {})
    value = detail["input"]
    shown = "a mapping" if isinstance(value, dict) else "a list" if isinstance(value, list) else repr(value)
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
        case _:
            return f"{shown} is not valid: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _fields_at(model: type[BaseModel], path: Path) -> list[str]:
    """The names of the fields that the schema knows at a place of the document."""
    annotation: Any = model
    for part in path:
        inner = _model_in(annotation)
        if inner is not None and str(part) in inner.model_fields and annotation is not None:
            annotation = inner.model_fields[str(part)].annotation
    inner = _model_in(annotation)
    return list(inner.model_fields) if inner else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside `Model`, `Model | None`, `list[Model]` or `dict[str, Annotated[Model, ...]]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (_model_in(inner) for inner in reversed(get_args(annotation)))
    return next((model for model in found if model is not None), None)
