"""What is calculated of numbers, texts and switches that are known: by operators, comparisons, Python's own
functions and the methods of texts.

What would become very large is not calculated, and what Python would refuse is unknown.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from launcher.program.values import UNKNOWN, Constant, Evaluated, Several, Value, joined

Plain = bool | int | float | str | None
"""What is written as a literal."""

ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_OF_WHOLE_NUMBERS: Mapping[type[ast.operator], Callable[[int, int], float]] = {
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: operator.pow,
}
ORDERS: Mapping[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    **ORDERS,
}
_LARGEST_POWER = 64
"""Powers and shifts by more than that make numbers that no setting is."""
_LONGEST_TEXT = 4000

_FUNCTIONS: Mapping[str, Callable[..., object]] = {
    "int": int,
    "float": float,
    "str": str,
    "bool": bool,
    "abs": abs,
    "max": max,
    "min": min,
    "round": round,
    "len": len,
    "math.ceil": math.ceil,
    "math.floor": math.floor,
}
"""Python's functions of plain values, by their names."""

_OF_LISTS: Mapping[str, Callable[..., object]] = {"sum": sum, "max": max, "min": min, "any": any, "all": all}
FUNCTIONS = frozenset({*_FUNCTIONS, *_OF_LISTS})
"""The names of all functions that `called_with` knows."""

TEXT_METHODS = frozenset(
    {"upper", "lower", "strip", "lstrip", "rstrip", "removeprefix", "removesuffix", "replace", "title"}
    | {"capitalize", "casefold", "zfill", "startswith", "endswith", "isdigit", "isdecimal", "count", "find"}
    | {"split", "rsplit", "splitlines", "partition", "rpartition"}
)
"""The methods of texts that change nothing and ask for nothing else."""


def calculated(sign: ast.operator, left: Value, right: Value) -> Value:
    """A number that is calculated from two others."""
    one = left.value if isinstance(left, Constant) else None
    other = right.value if isinstance(right, Constant) else None
    whole = isinstance(one, int) and isinstance(other, int) and abs(other) <= _LARGEST_POWER
    with suppress(ArithmeticError, ValueError):
        if isinstance(one, int | float) and isinstance(other, int | float) and type(sign) in ARITHMETIC:
            return Constant(ARITHMETIC[type(sign)](one, other))
        if whole and isinstance(one, int) and isinstance(other, int) and type(sign) in _OF_WHOLE_NUMBERS:
            return Constant(_OF_WHOLE_NUMBERS[type(sign)](one, other)) if abs(one) < 1 << 40 else UNKNOWN
    return UNKNOWN


def turned_round(sign: ast.unaryop, value: Value) -> Value:
    """`-number` and `not switch`."""
    if not isinstance(value, Constant):
        return UNKNOWN
    if isinstance(sign, ast.Not):
        return Constant(not value.value)
    number = value.value if isinstance(value.value, int | float) else None
    if number is None or isinstance(sign, ast.Invert):
        return UNKNOWN
    return Constant(-number) if isinstance(sign, ast.USub) else value


def one_of(node: ast.BoolOp, evaluated: Evaluated) -> Value:
    """`a or b`, `a and b`: without those parts that are surely passed over, up to one that surely decides."""
    decides = isinstance(node.op, ast.Or)
    found: list[Value] = []
    for each in node.values:
        value = evaluated(each)
        known = bool(value.value) if isinstance(value, Constant) else None
        if known is None or known is decides or each is node.values[-1]:
            found.append(value)
        if known is decides:
            break
    return joined(found)


def chosen(node: ast.IfExp, test: Value) -> list[ast.expr]:
    """What `a if test else b` may be: that for which a literal decides, or both."""
    both = [node.body, node.orelse]
    return both if not isinstance(test, Constant) else both[:1] if test.value else both[1:]


def compared(node: ast.Compare, evaluated: Evaluated) -> Value:
    """What a comparison of known literals gives: `split == "train"`, `1 < workers <= 8`, `name in (A, B)`."""
    left = evaluated(node.left)
    for sign, comparator in zip(node.ops, node.comparators, strict=True):
        if not isinstance(left, Constant):
            return UNKNOWN
        right = evaluated(comparator)
        holds = _holds(sign, left.value, right, evaluated)
        if holds is not True:
            return UNKNOWN if holds is None else Constant(False)
        left = right
    return Constant(True)


def _holds(sign: ast.cmpop, left: Plain, right: Value, evaluated: Evaluated) -> bool | None:
    if isinstance(sign, ast.In | ast.NotIn):
        found = _is_among(left, right, evaluated)
        return None if found is None else found is isinstance(sign, ast.In)
    if not isinstance(right, Constant):
        return None
    if type(sign) in ORDERS:
        numbers = isinstance(left, int | float) and isinstance(right.value, int | float)
        return ORDERS[type(sign)](left, right.value) if numbers else None
    return (left == right.value) is isinstance(sign, ast.Eq | ast.Is)


def _is_among(left: Plain, right: Value, evaluated: Evaluated) -> bool | None:
    if isinstance(right, Constant):
        texts = isinstance(left, str) and isinstance(right.value, str)
        return str(left) in str(right.value) if texts else None
    if not isinstance(right, Several):
        return None
    values = [evaluated(each) for each in right.node.elts]
    known = [each.value for each in values if isinstance(each, Constant)]
    return left in known if left in known or len(known) == len(values) else None


def called_with(name: str, values: Sequence[Value], evaluated: Evaluated) -> Value:
    """What one of FUNCTIONS gives for plain values; UNKNOWN where not all are known."""
    if len(values) == 1 and isinstance(listed := values[0], Several):
        if name == "len":
            starred = any(isinstance(each, ast.Starred) for each in listed.node.elts)
            return UNKNOWN if starred else Constant(len(listed.node.elts))
        known = _known([evaluated(each) for each in listed.node.elts])
        return UNKNOWN if known is None or name not in _OF_LISTS else _tried(_OF_LISTS[name], known)
    known = _known(values)
    if not known or None in known or name not in _FUNCTIONS or (name in ("max", "min") and len(known) == 1):
        return UNKNOWN
    return _tried(_FUNCTIONS[name], *known)


def _known(values: Sequence[Value]) -> list[Plain] | None:
    found = [each.value for each in values if isinstance(each, Constant)]
    return found if len(found) == len(values) else None


def _tried(function: Callable[..., object], *given: object) -> Value:
    with suppress(ArithmeticError, TypeError, ValueError):
        return _plain(function(*given))
    return UNKNOWN


def _plain(found: object) -> Value:
    return Constant(found) if found is None or isinstance(found, bool | int | float | str) else UNKNOWN


def of_text(text: str, method: str, given: Sequence[Plain]) -> str | bool | int | Sequence[str] | None:
    """What a method of a text gives; None where it would refuse, or make a very long one."""
    if sum(len(str(each)) for each in given) + len(text) > _LONGEST_TEXT:
        return None
    if method == "replace" and len(str(given[-1:])) > _LARGEST_POWER:
        return None
    if method == "zfill" and (not isinstance(given[0], int) or given[0] > _LARGEST_POWER):
        return None
    with suppress(TypeError, ValueError):
        found: str | bool | int | Sequence[str] = getattr(text, method)(*given)
        return found
    return None
