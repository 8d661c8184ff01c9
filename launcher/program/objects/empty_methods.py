"""Methods that are there to be overridden, and functions that stand for none."""

from __future__ import annotations

import ast

from launcher.program.index import FunctionNode, last_name


def does_nothing(method: FunctionNode) -> bool:
    """Whether a method only says that derived classes implement it, or may: it raises, or is empty; a lambda
    whether it gives a literal."""
    if isinstance(method, ast.Lambda):
        return isinstance(method.body, ast.Constant)
    raised = method.body[-1] if len(method.body) <= 2 else None  # What stands before is what it is for.
    thrown = raised.exc if isinstance(raised, ast.Raise) and raised.exc is not None else None
    marks = [*method.decorator_list, *([] if thrown is None else [thrown])]
    names = {last_name(each.func if isinstance(each, ast.Call) else each) for each in marks}
    return not names.isdisjoint({"NotImplementedError", "abstractmethod"}) or all(map(_is_empty, method.body))


def _is_empty(statement: ast.stmt) -> bool:
    """Whether a statement is `pass`, a text, `...`, or gives back nothing."""
    value = getattr(statement, "value", None)
    plain = value is None or isinstance(value, ast.Constant)
    is_none = isinstance(statement, ast.Return) and plain and getattr(value, "value", None) is None
    return isinstance(statement, ast.Pass) or is_none or (isinstance(statement, ast.Expr) and plain)
