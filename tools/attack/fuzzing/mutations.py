"""Mutations of valid documents: of what they say, and of how it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from copy import deepcopy
from datetime import date, datetime
from itertools import islice
from random import Random
from typing import Any

import yaml

_MOST_PLACES = 20_000
"""Twice as many as a document may have; more would only take this generator's time."""
_ODD_TEXTS = (
    "", " ", "\x00", "\x1b[2J\x9b2J", "\ud83d", "a\nb", "’\u202e", "x" * 10_000, "../" * 50, "${HOME}",
    "${", "s3://", "s3://bucket/\x85", "1e400", "0x", "0o9", "-0", "NaN", "yes", "~", "=", "<<", "*", "&a",
    "12:30:45", "2026-02-30", "ml.p4d.24xlarge ", "ML.P4D.24XLARGE", "ﬁ", "İ", "arn:aws:iam::1:role", "%s%n",
    "'\"`", "{{x}}", "\\", "\u2028", "🤖" * 200, "999d999h", "1" * 5000, "./", "/dev/null", "~root",
)  # fmt: skip
_ODD_NUMBERS = (
    0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 10**400, 0.1, -0.0, 1e308, 5e-324, math.inf, -math.inf,
    math.nan, True, False,
)  # fmt: skip
_TAGS = (
    "!!python/object/apply:os.system [id]", "!!binary AAAA", "!!set {a, b}", "!!omap [a: 1]", "!x y",
    "!!timestamp 2026-13-45", "!!int abc", "!!float .", "!!bool maybe", "!!null x", "!!str [a]", "!!map [1]",
    "!!seq {a: 1}", "!<tag:yaml.org,2002:int> x", "!!merge x", "*nowhere", "&a [*a]", "&a {b: *a}",
)  # fmt: skip
_ODD_LINES = (
    "\t- tab", "<<: *base", "<<: {a: 1}", "? [1, 2]\n: x", "? {a: b}\n: c", "---", "...", "%YAML 3.0",
    "- list", ": x", "}", "'", "|", "name: a\nname: b", "\ufeff", "\x07", "[" * 50, "null: null", "1: 2",
    "true: x", "2026-01-01: x", "a: &a [x]\nb: [*a, *a]",
)  # fmt: skip


def mutated(chosen: Random, document: Any) -> Any:
    """The document with some of its parts changed: types, numbers, texts, depth, what is there at all."""
    document = deepcopy(document)
    for _ in range(_few(chosen)):
        places = list(_places(document))
        if not places:
            return odd_value(chosen)
        before = deepcopy(document)
        parent, key = chosen.choice(places)
        _change(chosen, parent, key)
        if len(list(islice(_places(document), _MOST_PLACES))) == _MOST_PLACES:
            return before
    return document


def mutated_in_kind(chosen: Random, document: Any, required: Collection[str]) -> Any:
    """The document changed as a service may answer it: types stay, and so does what is `required`."""
    document = deepcopy(document)
    for _ in range(_few(chosen)):
        places = list(_places(document))
        parent, key = chosen.choice(places)
        value = parent[key]
        if isinstance(parent, dict) and key not in required and chosen.random() < 0.4:
            del parent[key]
        elif isinstance(value, str):
            parent[key] = chosen.choice(_ODD_TEXTS)
        elif isinstance(value, bool):
            parent[key] = not value
        elif isinstance(value, int):
            parent[key] = chosen.choice((0, 1, -1, 2**31, 2**63))
        elif isinstance(value, list):
            parent[key] = value * chosen.choice((0, 2, 50))
        elif isinstance(value, dict) and not set(value) & set(required):
            parent[key] = {}
    return document


def written(chosen: Random, document: Any) -> bytes:
    """The document as a file: YAML or JSON, now and then with what spoils it."""
    as_json = chosen.random() < 0.3
    try:
        text = (
            json.dumps(document, ensure_ascii=chosen.random() < 0.5, indent=chosen.choice((None, 1)))
            if as_json
            else yaml.safe_dump(document, allow_unicode=chosen.random() < 0.5, sort_keys=False)
        )
    except (TypeError, ValueError, yaml.YAMLError):
        text = repr(document)
    if chosen.random() < 0.3:
        text = _with_odd_lines(chosen, text)
    encoding = chosen.choice(("utf-8",) * 5 + ("utf-16", "latin-1", "utf-8-sig"))
    halves = "replace" if encoding == "latin-1" or chosen.random() < 0.5 else "surrogatepass"
    content = text.encode(encoding, halves)
    if chosen.random() < 0.15:
        content = _with_odd_bytes(chosen, content)
    return content


def odd_value(chosen: Random, depth: int = 0) -> Any:
    """Any value that a field was not meant to have."""
    kind = chosen.randrange(9)
    if kind < 3:
        return chosen.choice(_ODD_TEXTS)
    if kind < 5:
        return chosen.choice(_ODD_NUMBERS)
    if kind == 5:
        return chosen.choice(
            (None, [], {}, [[]], {"": ""}, [None], date(2026, 1, 1), datetime(2026, 1, 1), b"\xff")
        )
    if kind == 6 and depth < 3:
        return [odd_value(chosen, depth + 1) for _ in range(chosen.randrange(4))]
    if kind == 7 and depth < 3:
        return {_odd_key(chosen): odd_value(chosen, depth + 1) for _ in range(chosen.randrange(4))}
    return _nested(chosen)


def _few(chosen: Random) -> int:
    return chosen.choice((0, 1, 1, 1, 2, 2, 3, 5, 10))


def _odd_key(chosen: Random) -> Any:
    return chosen.choice((*_ODD_TEXTS[:12], 1, None, True, 1.5, "name", date(2026, 1, 1)))


def _nested(chosen: Random) -> Any:
    """Something nested as deep as Python's own writers can take it."""
    inner: Any = "x"
    for _ in range(chosen.choice((2, 20, 59, 61, 90))):
        inner = [inner] if chosen.random() < 0.5 else {"a": inner}
    return inner


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in the document, as what it is in and its key there."""
    items: Any = ()
    if isinstance(document, dict):
        items = document.items()
    elif isinstance(document, list):
        items = enumerate(document)
    for key, value in items:
        yield document, key
        yield from _places(value)


def _change(chosen: Random, parent: Any, key: Any) -> None:
    value = parent[key]
    match chosen.randrange(9):
        case 0 | 1 | 2:
            parent[key] = odd_value(chosen)
        case 3:
            del parent[key]
        case 4:
            parent[key] = [value] if chosen.random() < 0.5 else {"value": value}
        case 5 if isinstance(parent, dict):
            parent[f"{key}{chosen.choice('sx_ é')}"] = parent.pop(key)
        case 6 if isinstance(parent, dict):
            parent[_odd_key(chosen)] = odd_value(chosen)
        case 7:
            parent[key] = _as_another_type(chosen, value)
        case _ if isinstance(parent, list):
            parent.extend([value] * chosen.choice((1, 3, 200)))
        case _:
            parent[key] = odd_value(chosen)


def _as_another_type(chosen: Random, value: Any) -> Any:
    if isinstance(value, str):
        return chosen.choice((value.upper(), value * 50, value[:-1], f" {value}\t", _bytes(value), [value]))
    if isinstance(value, bool | int | float):
        return chosen.choice((str(value), -value, value * 10**9, f"{value}.0", [value], not value))
    return str(value)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _with_odd_lines(chosen: Random, text: str) -> str:
    lines = text.split("\n")
    for _ in range(_few(chosen)):
        at = chosen.randrange(len(lines) + 1)
        match chosen.randrange(4):
            case 0:
                lines.insert(at, chosen.choice(_ODD_LINES))
            case 1 if ": " in lines[at - 1]:
                lines[at - 1] = f"{lines[at - 1].partition(': ')[0]}: {chosen.choice(_TAGS)}"
            case 2:
                lines.insert(at, lines[at - 1])
            case _:
                lines[at - 1] = " " * chosen.randrange(5) + lines[at - 1].lstrip()
    return chosen.choice(("\n", "\n", "\r\n", "\r")).join(lines)


def _with_odd_bytes(chosen: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(_few(chosen)):
        at = chosen.randrange(len(changed) + 1)
        if chosen.random() < 0.5:
            changed[at:at] = chosen.randbytes(chosen.choice((1, 2, 8)))
        else:
            del changed[at : at + chosen.choice((1, 10, 1000))]
    return bytes(changed)
