"""What Python's own library gives back of what it is given: the results of functions that it runs, copies,
the next element."""

from __future__ import annotations

import ast
from collections.abc import Callable

from launcher.program.index import FunctionNode, ancestors_in_function, file_of, last_name
from launcher.program.values import Instance, Several, Value, like

HOLDING_CONTEXTS = frozenset({"contextlib.nullcontext", "contextlib.closing"})
"""The contexts that give what they are made of where they are entered."""

_SAME = frozenset({"asyncio.run", "asyncio.create_task", "asyncio.wait_for", "copy.copy", "copy.deepcopy"})
"""What gives its first argument, or what that will give, or another one like it."""

_SUBMITTING = ("ThreadPoolExecutor.submit", "ThreadPool.apply_async")
"""What runs a function in a thread; `result` or `get` of what it gives is what the function gives."""


def handed_back(name: str, call: ast.Call, value: Callable[[ast.expr], Value]) -> ast.expr | None:
    """The expression that a call of a library's function gives back; None where it gives something else."""
    if name in _SAME and call.args:
        return call.args[0]
    owner, _, last = name.rpartition(".")
    if last in ("result", "get") and owner.endswith(_SUBMITTING) and isinstance(call.func, ast.Attribute):
        submitted = value(call.func.value)
        if isinstance(submitted, Instance) and submitted.call.args:
            function, *given = submitted.call.args
            return like(call, ast.Call(function, given, submitted.call.keywords))
    if name == "next" and call.args:
        listed = value(call.args[0])
        if isinstance(listed, Several) and listed.node.elts:
            return listed.node.elts[0]
    return None


def plain_yields(function: FunctionNode) -> ast.Tuple | None:
    """What a generator yields, one after the other; None where it does so in a loop, or is none."""
    yields = file_of(function).yields_of.get(function, [])
    given = [each.value for each in yields if isinstance(each, ast.Yield) and each.value is not None]
    around = [one for each in yields for one in ancestors_in_function(each)]
    looped = any(isinstance(each, ast.For | ast.While) for each in around)
    if not given or looped or len(given) < len(yields):
        return None
    return like(given[0], ast.Tuple([*given], ast.Load()))


def is_context_manager(function: FunctionNode) -> bool:
    """Whether a decorator makes a context manager of a generator."""
    made = [] if isinstance(function, ast.Lambda) else function.decorator_list
    names = [last_name(each.func if isinstance(each, ast.Call) else each) for each in made]
    return any("contextmanager" in (each or "") for each in names)
