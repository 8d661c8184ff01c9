"""What the API model says about a request: types, required keys, lengths, counts, patterns, enums.

The model `api_model.json` is generated from botocore's (tools/generate/api_model.py). Patterns must
match the whole value, as they do at the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from launcher.facts.data_file import read_data_file
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.text.nearest import nearest

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "boolean": (bool,),
    "structure": (dict,),
    "map": (dict,),
    "list": (list,),
}

_PRIVATE = {"Environment", "HyperParameters", "StaticHyperParameters"}

# Python's `re` lacks the Unicode and POSIX classes that two patterns of the model use.
_SEPARATORS = r" \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_CLASSES = {
    r"\p{L}\p{Z}\p{N}": rf"\w{_SEPARATORS}",
    r"\p{Alnum}": "a-zA-Z0-9",
}


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def violations(operation: str, request: Mapping[str, Any]) -> Iterator[Finding]:
    """All constraints of an operation's model that the request breaks.

    `path` and `subject` are those of the request, by the API's key names; the remedy is what the API takes.
    """
    model = _model()
    yield from _check(request, model["operations"][operation], ())


def _check(value: Any, shape_name: str, path: Path) -> Iterator[Finding]:
    shape = _model()["shapes"][shape_name]
    kind = shape["type"]
    wanted = _TYPES.get(kind)
    if wanted and (not isinstance(value, wanted) or (isinstance(value, bool) and kind != "boolean")):
        yield _violation(path, f"is {type(value).__name__}", f"must be of type {kind}")
        return
    yield from _check_size(value, shape, path)
    if kind == "structure":
        yield from _check_members(value, shape, path)
    elif kind == "list":
        for index, item in enumerate(value):
            yield from _check(item, shape["member"], (*path, index))
    elif kind == "map":
        for key, item in value.items():
            yield from _check(key, shape["key"], (*path, key))
            yield from _check(item, shape["value"], (*path, key))
    elif kind == "string":
        yield from _check_text(value, shape, path)


def _check_members(value: Mapping[str, Any], shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    for name in shape["required"]:
        if name not in value:
            yield _violation((*path, name), "is missing", "is required")
    for name, item in value.items():
        if name not in shape["members"]:
            yield _violation((*path, name), "is unknown", f"known are {', '.join(sorted(shape['members']))}")
        else:
            yield from _check(item, shape["members"][name], (*path, name))


def _check_size(value: Any, shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    if isinstance(value, str):
        size, unit = len(value), " characters"
    elif isinstance(value, list | dict):
        size, unit = len(value), " entries"
    else:
        size, unit = value, ""
    if "min" in shape and size < shape["min"]:
        yield _violation(
            path, f"has {size}{unit}" if unit else f"is {size}", f"at least {shape['min']}{unit}"
        )
    if "max" in shape and size > shape["max"]:
        yield _violation(path, f"has {size}{unit}" if unit else f"is {size}", f"at most {shape['max']}{unit}")


def _check_text(value: str, shape: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    # Environment and hyperparameters may hold secrets, which no message may repeat.
    shown = "has this value" if _PRIVATE.intersection(path[:2]) else f"is {_shortened(value)!r}"
    if "enum" in shape and value not in shape["enum"]:
        near = nearest(value, shape["enum"], most=4, likeness=0.4) or shape["enum"][:12]
        yield _violation(
            path, shown, f"one of {', '.join(near)}{' ...' if len(near) < len(shape['enum']) else ''}"
        )
    if "pattern" in shape and not _pattern(shape["pattern"]).fullmatch(value):
        yield _violation(path, shown, f"must have the form {shape['pattern']}")


def _violation(path: Path, problem: str, limit: str) -> Finding:
    message = f"{dotted(path)} of the request {problem}, and the service refuses that"
    return job_file.BREAKS_API_MODEL.at(path, message, remedy=f"{limit}.")


def _shortened(value: str) -> str:
    return value if len(value) <= 80 else f"{value[:77]}..."


@cache
def _pattern(text: str) -> re.Pattern[str]:
    for ours, theirs in _CLASSES.items():
        text = text.replace(ours, theirs)
    return re.compile(text)


@cache
def _model() -> dict[str, Any]:
    return read_data_file(__file__, "api_model.json")
