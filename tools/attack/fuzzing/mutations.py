"""Strategies of mutations of valid documents: of what they say, and of how it is written."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterator
from copy import deepcopy
from datetime import date, datetime
from itertools import islice
from typing import Any

import yaml
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, sampled_from

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


_few = sampled_from((0, 1, 1, 1, 2, 2, 3, 5, 10))
_odd_texts = sampled_from(_ODD_TEXTS)
_odd_keys = sampled_from((*_ODD_TEXTS[:12], 1, None, True, 1.5, "name", date(2026, 1, 1)))
_odd_others = sampled_from(
    (None, [], {}, [[]], {"": ""}, [None], date(2026, 1, 1), datetime(2026, 1, 1), b"\xff")
).map(deepcopy)


@st.composite
def _nested(draw: DrawFn) -> Any:
    """Something nested as deep as Python's own writers can take it."""
    inner: Any = "x"
    for _ in range(draw(sampled_from((2, 20, 59, 61, 90)))):
        inner = [inner] if draw(st.booleans()) else {"a": inner}
    return inner


odd_values = st.recursive(
    _odd_texts | sampled_from(_ODD_NUMBERS) | _odd_others | _nested(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_odd_keys, inner, max_size=3),
    max_leaves=8,
)
"""Any value that a field was not meant to have."""


def of_ten(times: int) -> st.SearchStrategy[bool]:
    """True so many times of ten."""
    return sampled_from((False,) * (10 - times) + (True,) * times)


@st.composite
def mutated(draw: DrawFn, document: Any) -> Any:
    """The document with some of its parts changed: types, numbers, texts, depth, what is there at all."""
    document = deepcopy(document)
    for _ in range(draw(_few)):
        places = list(_places(document))
        if not places:
            return draw(odd_values)
        before = deepcopy(document)
        _change(draw, *draw(sampled_from(places)))
        if len(list(islice(_places(document), _MOST_PLACES))) == _MOST_PLACES:
            return before
    return document


@st.composite
def mutated_in_kind(draw: DrawFn, document: Any, required: Collection[str]) -> Any:
    """The document changed as a service may answer it: types stay, and so does what is `required`."""
    document = deepcopy(document)
    for _ in range(draw(_few)):
        parent, key = draw(sampled_from(list(_places(document))))
        value = parent[key]
        if isinstance(parent, dict) and key not in required and draw(of_ten(4)):
            del parent[key]
        elif isinstance(value, str):
            parent[key] = draw(_odd_texts)
        elif isinstance(value, bool):
            parent[key] = not value
        elif isinstance(value, int):
            parent[key] = draw(sampled_from((0, 1, -1, 2**31, 2**63)))
        elif isinstance(value, list):
            parent[key] = value * draw(sampled_from((0, 2, 50)))
        elif isinstance(value, dict) and not set(value) & set(required):
            parent[key] = {}
    return document


@st.composite
def written(draw: DrawFn, document: Any) -> bytes:
    """The document as a file: YAML or JSON, now and then with what spoils it."""
    try:
        if draw(of_ten(3)):
            indent = draw(sampled_from((None, 1)))
            text = json.dumps(document, ensure_ascii=draw(st.booleans()), indent=indent)
        else:
            text = yaml.safe_dump(document, allow_unicode=draw(st.booleans()), sort_keys=False)
    except (TypeError, ValueError, yaml.YAMLError):
        text = repr(document)
    if draw(of_ten(3)):
        text = _with_odd_lines(draw, text)
    encoding = draw(sampled_from(("utf-8",) * 5 + ("utf-16", "latin-1", "utf-8-sig")))
    halves = "replace" if encoding == "latin-1" or draw(st.booleans()) else "surrogatepass"
    content = text.encode(encoding, halves)
    return _with_odd_bytes(draw, content) if draw(of_ten(1)) else content


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


def _change(draw: DrawFn, parent: Any, key: Any) -> None:
    value = parent[key]
    match draw(st.integers(0, 8)):
        case 3:
            del parent[key]
        case 4:
            parent[key] = draw(sampled_from(([value], {"value": value})))
        case 5 if isinstance(parent, dict):
            parent[f"{key}{draw(sampled_from('sx_ é'))}"] = parent.pop(key)
        case 6 if isinstance(parent, dict):
            parent[draw(_odd_keys)] = draw(odd_values)
        case 7:
            parent[key] = draw(sampled_from(_as_other_types(value)))
        case 8 if isinstance(parent, list):
            parent.extend([value] * draw(sampled_from((1, 3, 200))))
        case _:
            parent[key] = draw(odd_values)


def _as_other_types(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        read = value.encode("utf-8", "replace")
        return value.upper(), value * 50, value[:-1], f" {value}\t", read, [value]
    if isinstance(value, bool | int | float):
        return str(value), -value, value * 10**9, f"{value}.0", [value], not value
    return (str(value),)


def _with_odd_lines(draw: DrawFn, text: str) -> str:
    lines = text.split("\n")
    for _ in range(draw(_few)):
        at = draw(st.integers(0, len(lines)))
        match draw(st.integers(0, 3)):
            case 0:
                lines.insert(at, draw(sampled_from(_ODD_LINES)))
            case 1 if ": " in lines[at - 1]:
                lines[at - 1] = f"{lines[at - 1].partition(': ')[0]}: {draw(sampled_from(_TAGS))}"
            case 2:
                lines.insert(at, lines[at - 1])
            case _:
                lines[at - 1] = " " * draw(st.integers(0, 4)) + lines[at - 1].lstrip()
    return draw(sampled_from(("\n", "\n", "\r\n", "\r"))).join(lines)


def _with_odd_bytes(draw: DrawFn, content: bytes) -> bytes:
    for _ in range(draw(_few)):
        at = draw(st.integers(0, len(content)))
        put, lost = draw(st.binary(min_size=1, max_size=8).map(lambda put: (put, 0)) | _losses)
        content = content[:at] + put + content[at + lost :]
    return content


_losses = sampled_from((1, 10, 1000)).map(lambda lost: (b"", lost))
