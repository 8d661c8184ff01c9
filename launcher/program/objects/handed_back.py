"""What Python's own library gives back of what it is given: the results of functions that it runs, what it
holds, what a generator yields."""

from __future__ import annotations

import ast
from collections.abc import Callable

from launcher.program.index import FunctionNode, ancestors_in_function, file_of, last_name
from launcher.program.values import External, Instance, Value, like

HOLDING_CONTEXTS = frozenset({"contextlib.nullcontext", "contextlib.closing"})
"""The contexts that give what they are made of where they are entered."""

_SUBMITTING = ("ThreadPoolExecutor.submit", "ThreadPool.apply_async")
"""What runs a function in a thread; `result` or `get` of what it gives is what the function gives."""


def handed_back(name: str, call: ast.Call, value: Callable[[ast.expr], Value]) -> ast.expr | None:
    """The expression that a call of a library's function gives back; None where it gives something else."""
    owner, _, last = name.rpartition(".")
    if last in ("result", "get") and owner.endswith(_SUBMITTING) and isinstance(call.func, ast.Attribute):
        submitted = value(call.func.value)
        if isinstance(submitted, Instance) and submitted.call.args:
            function, *given = submitted.call.args
            return like(call, ast.Call(function, given, submitted.call.keywords))
    return None


def is_run_in_thread(called: Value) -> bool:
    """Whether what is called runs the function that it is given in a thread of its process."""
    return isinstance(called, External) and called.name.endswith(_THREADS)


_THREADS = ("threading.Thread", "Executor.submit", "ThreadPool.apply_async", "asyncio.to_thread")


def yielded(function: FunctionNode) -> ast.Tuple | None:
    """All that a generator yields, as a list; None where a part of it is not written there, or it is none."""
    yields = file_of(function).yields_of.get(function, [])
    given = [each.value for each in yields if isinstance(each, ast.Yield) and each.value is not None]
    return like(given[0], ast.Tuple([*given], ast.Load())) if given and len(given) == len(yields) else None


def yields_each_once(function: FunctionNode) -> bool:
    """Whether a generator yields nothing in a loop, where nobody knows how often."""
    yields = file_of(function).yields_of.get(function, [])
    around = [outer for each in yields for outer in ancestors_in_function(each)]
    return not any(isinstance(each, ast.For | ast.While) for each in around)


def is_context_manager(function: FunctionNode) -> bool:
    """Whether a decorator makes a context manager of a generator."""
    made = [] if isinstance(function, ast.Lambda) else function.decorator_list
    names = [last_name(each.func if isinstance(each, ast.Call) else each) for each in made]
    return any("contextmanager" in (each or "") for each in names)
