"""The functions and methods of a program that a library calls: what it hands them, and which of them it calls
where an exception was raised."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from launcher.program.index import FileIndex, FunctionNode, class_of, positional_of
from launcher.program.objects.nodes import walk
from launcher.program.values import LIBRARY_TABLES, UNKNOWN, Defined, External, Instance, Value, library_names

_DEEPEST_BASE = 5
_HOOK_NAMES = ("on_", "setup", "teardown")
"""How the names of the methods begin that callbacks have."""


def library_bases(
    definition: ast.ClassDef, value_of: Callable[[ast.expr], Value], depth: int = _DEEPEST_BASE
) -> Iterator[str]:
    """The classes of libraries from which a class of the program is derived, also by others of its own."""
    for base in map(value_of, definition.bases):
        if isinstance(base, External):
            yield base.name
        elif isinstance(base, Defined) and isinstance(base.node, ast.ClassDef) and depth:
            yield from library_bases(base.node, value_of, depth - 1)


def handed_to_hook(hook: FunctionNode, parameter: ast.arg, value_of: Callable[[ast.expr], Value]) -> Value:
    """What a library hands a hook of a class of callbacks, such as its Trainer."""
    owner, positional = class_of(hook), positional_of(hook)
    if owner is None or parameter not in positional or not getattr(hook, "name", "").startswith(_HOOK_NAMES):
        return UNKNOWN
    place = positional.index(parameter) - 1
    for base in library_bases(owner, value_of):
        handed = LIBRARY_TABLES["hook_parameters"].get(base, ())
        if 0 <= place < len(handed) and handed[place]:
            return Instance(handed[place], ast.Call(ast.Name(parameter.arg), [], []))
    return UNKNOWN


_EXCEPTION_EVENTS = library_names("exception_events")
_EVENTS = {name.rpartition(".")[2] for name in _EXCEPTION_EVENTS}
_EXCEPTION_HOOKS = library_names("exception_hooks")


def called_on_exceptions(file: FileIndex, value_of: Callable[[ast.expr], Value]) -> Iterator[FunctionNode]:
    """The functions that run in the process where an exception was raised, called by a library or by Python.

    Methods such as Lightning's `on_exception`, handlers of an event such as ignite's, `sys.excepthook`, and
    what `atexit` calls, where the end is an exception or not.
    """
    hooks = {name.rpartition(".")[2] for name in _EXCEPTION_HOOKS}
    for function in file.functions:
        if (owner := class_of(function)) is not None and function.name in hooks:
            names = (f"{base}.{function.name}" for base in library_bases(owner, value_of))
            if not _EXCEPTION_HOOKS.isdisjoint(names):
                yield function
        elif any(
            _is_for_exit(each) or (isinstance(each, ast.Call) and _is_for_exceptions(each, value_of))
            for each in _makers(function)
        ):
            yield function
    calls = file.calls if any(each in file.attributes for each in _EVENTS) else ()
    handed = [given for call in calls if _is_for_exceptions(call, value_of) for given in call.args]
    registered = (each for each in file.calls_of.get("register", ()) if each.args)
    handed += [each.args[0] for each in registered if _is_for_exit(each.func)]
    handed += [each.value for each in file.set_attributes.get("excepthook", ()) if each.value is not None]
    for value in map(value_of, handed):
        if isinstance(value, Defined) and isinstance(value.node, FunctionNode):
            yield value.node


def _makers(function: FunctionNode) -> list[ast.expr]:
    return [] if isinstance(function, ast.Lambda) else function.decorator_list


def _is_for_exit(decorator: ast.expr) -> bool:
    return ast.unparse(decorator) == "atexit.register"


def _is_for_exceptions(call: ast.Call, value_of: Callable[[ast.expr], Value]) -> bool:
    """Whether a call registers something for the event of an exception."""
    parts = (part for given in call.args for part in walk(given))
    values = [value_of(each) for each in parts if isinstance(each, ast.Attribute) and each.attr in _EVENTS]
    return any(isinstance(each, External) and each.name in _EXCEPTION_EVENTS for each in values)
