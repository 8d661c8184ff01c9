"""How finely a program tells the time: by its seconds, which differ between processes, or by the day."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable

from launcher.program.dataflow import parts_of
from launcher.program.index import last_name, parent_of
from launcher.program.program import Program
from launcher.program.values import UNKNOWN, Constant

_OF_A_TIME = ("time.strftime", "time.ctime", "time.asctime", "time.localtime", "time.gmtime")
_SECONDS = re.compile("%[-#]?[SsfTXcr]")
_COARSE = ("date", "year", "month", "day", "hour", "weekday")
_CLOCKS = ("time.", "datetime.")
_MINUTE = 60


def tells_seconds(program: Program, call: ast.Call, name: str) -> bool:
    """Whether a clock is surely not read as a day or hour alone, which is the same on all ranks, nor handed
    the time that it is to write."""
    if name in _OF_A_TIME and len(call.args) > (name == "time.strftime"):
        return False
    method = parent_of(call)
    outer = parent_of(method) if isinstance(method, ast.Attribute) else None
    written = outer if isinstance(outer, ast.Call) and last_name(outer.func) == "strftime" else call
    if isinstance(method, ast.Attribute) and method.attr in _COARSE:
        return False
    return not _is_written_coarsely(program, written)


def _is_written_coarsely(program: Program, call: ast.Call) -> bool:
    """Whether a call writes a time in a form without its seconds, or in one that nobody knows."""
    form = program.value(call.args[0]) if call.args else UNKNOWN
    in_seconds = isinstance(form, Constant) and _SECONDS.search(str(form.value))
    return last_name(call.func) == "strftime" and not in_seconds


def is_made_coarse(
    program: Program, node: ast.expr, own_calls: Callable[[Program, ast.expr], Iterable[ast.Call]]
) -> bool:
    """Whether an expression leaves too little of a time to tell two processes apart, or what nobody knows.

    As of `now.strftime("%d")`, `str(now)[:10]` and `time.time() // 3600`. `own_calls` finds the clocks.
    """
    match node:
        case ast.Call():
            return _is_written_coarsely(program, node)
        case ast.Subscript(slice=ast.Slice(upper=ast.expr())) if not _is_hashed(program, node.value):
            names = [program.qualified(each.func) or "" for each in own_calls(program, node.value)]
            return all(each.startswith(_CLOCKS) for each in names)
        case ast.BinOp(op=ast.FloorDiv() | ast.Div(), right=ast.Constant(value=int() | float() as divisor)):
            names = [program.qualified(each.func) or "" for each in own_calls(program, node.left)]
            return divisor >= _MINUTE * (10**9 if "time.time_ns" in names else 1)
    return False


def _is_hashed(program: Program, text: ast.expr) -> bool:
    """Whether each letter of a text is another one where the time is."""
    called = (last_name(each.func) for each in parts_of(program, text) if isinstance(each, ast.Call))
    return any(each in ("digest", "hexdigest") for each in called)


def is_filled_in_coarsely(part: ast.expr) -> bool:
    """Whether a text is filled in with a time by a form without its seconds: `f"{now:%Y-%m-%d}"`."""
    field = parent_of(part)
    form = field.format_spec if isinstance(field, ast.FormattedValue) else None
    written = "" if form is None else ast.unparse(form)
    return "%" in written and not _SECONDS.search(written)
