"""Which environment variables a program sets, to what, and whether it surely does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.scripts.index import FileIndex
from launcher.scripts.scopes import BindingKind, ancestors, last_name, parent_of
from launcher.scripts.values import Constant, External

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_ENVIRON = External("os.environ")
_SETS = frozenset({"setdefault", "update", "__setitem__"})


@dataclass(frozen=True, slots=True, eq=False)
class ChangedVariable:
    """One variable that is set: by the expression `value`, at `node`.

    `only_unset` says that a value which the launcher gave stays. With `as_text` the program itself makes a
    string of the value.
    """

    name: str
    value: ast.expr
    node: ast.AST
    only_unset: bool = False
    as_text: bool = False


def changed_variables(program: Program) -> Iterator[ChangedVariable]:
    """Every variable that the program puts into os.environ, in the order of its files.

    By assignment, `update`, `setdefault`, `|=`, `os.putenv`, and in a loop over a dictionary that is written
    out. What has no constant name is left out.
    """
    names = program.known_as({"environ"})
    for file in program.files:
        uses = [use for name in sorted(names) for use in _uses(file, name)]
        for use in sorted(uses, key=lambda each: (each.lineno, each.col_offset)):
            if program.value(use) == _ENVIRON:
                yield from _changed(program, use)
        for statement in file.statements.get(ast.AugAssign, ()):
            if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.BitOr):
                target = statement.target
                if last_name(target) in names and _is_environ(program, target):
                    yield from _pairs(program, statement.value, statement)
        for call in file.calls_of.get("putenv", ()):
            if len(call.args) == 2 and program.qualified(call.func) == "os.putenv":
                yield from _one(program, call.args[0], call.args[1], call)


def mentions_environment(program: Program, test: ast.expr) -> bool:
    """Whether a test asks for environment variables, so that it tells who started the program."""
    for node in ast.walk(test):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            if program.value(node) in (_ENVIRON, External("os.getenv")):
                return True
            if last_name(node) in ("is_torchelastic_launched", "is_torchrun"):
                return True
    return False


def _uses(file: FileIndex, name: str) -> Iterator[ast.Name | ast.Attribute]:
    yield from file.names.get(name, ())
    yield from file.attributes.get(name, ())


def _is_environ(program: Program, target: ast.expr) -> bool:
    """Of what is set: `os.environ` of the module os, or a name that was imported."""
    if isinstance(target, ast.Attribute):
        return program.value(target.value) == External("os")
    return (
        isinstance(target, ast.Name)
        and program.evaluation.value(ast.copy_location(_read_again(target), target)) == _ENVIRON
    )


def _read_again(target: ast.Name) -> ast.Name:
    name = ast.Name(target.id, ast.Load())
    name.__dict__.update({key: target.__dict__[key] for key in ("parent", "scope")})
    return name


def _changed(program: Program, use: ast.expr) -> Iterator[ChangedVariable]:
    parent = parent_of(use)
    if isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Store):
        statement = parent_of(parent)
        if isinstance(statement, ast.Assign):
            yield from _one(program, parent.slice, statement.value, statement)
    elif isinstance(parent, ast.Attribute) and parent.attr in _SETS:
        call = parent_of(parent)
        if not isinstance(call, ast.Call) or call.func is not parent:
            return
        if parent.attr == "update":
            for keyword in call.keywords:
                if keyword.arg is not None:
                    yield _variable(program, keyword.arg, keyword.value, keyword.value)
            for given in call.args:
                yield from _pairs(program, given, call)
        elif len(call.args) == 2:
            only_unset = parent.attr == "setdefault"
            yield from _one(program, call.args[0], call.args[1], call, only_unset)


def _one(
    program: Program, key: ast.expr, value: ast.expr, node: ast.AST, only_unset: bool = False
) -> Iterator[ChangedVariable]:
    name = program.value(key)
    if isinstance(name, Constant) and isinstance(name.value, str):
        yield _variable(program, name.value, value, node, only_unset)
    elif isinstance(key, ast.Name):
        yield from _looped(program, key, value, node, only_unset)


def _looped(
    program: Program, key: ast.Name, value: ast.expr, node: ast.AST, only_unset: bool
) -> Iterator[ChangedVariable]:
    """`for name, value in {...}.items(): os.environ[name] = value`."""
    as_text = isinstance(value, ast.Call) and program.qualified(value.func) == "str" and len(value.args) == 1
    given = value.args[0] if as_text and isinstance(value, ast.Call) else value
    for loop in ancestors(node):
        if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple):
            continue
        targets = [each.id if isinstance(each, ast.Name) else None for each in loop.target.elts]
        if targets[:1] != [key.id] or len(targets) != 2:
            continue
        if not isinstance(given, ast.Name) or given.id != targets[1]:
            return
        items = loop.iter.func if isinstance(loop.iter, ast.Call) else None
        if isinstance(items, ast.Attribute) and items.attr == "items":
            for each in _pairs(program, items.value, node):
                unset = only_unset or each.only_unset or _asks_first(program, node)
                yield ChangedVariable(each.name, each.value, node, unset, as_text)
        return


def _pairs(program: Program, given: ast.expr, node: ast.AST) -> Iterator[ChangedVariable]:
    """The variables of a dictionary that is written out here, or where its name is bound."""
    if isinstance(given, ast.Name):
        bindings = program.evaluation.sources(given)
        if len(bindings) != 1 or bindings[0].kind is not BindingKind.ASSIGNED or bindings[0].value is None:
            return
        if isinstance(bindings[0].value, ast.Name):
            return
        given = bindings[0].value
    if isinstance(given, ast.Dict):
        for key, value in zip(given.keys, given.values, strict=True):
            name = None if key is None else program.value(key)
            if isinstance(name, Constant) and isinstance(name.value, str):
                yield _variable(program, name.value, value, value)
    elif isinstance(given, ast.Call) and program.qualified(given.func) == "dict" and not given.args:
        for keyword in given.keywords:
            if keyword.arg is not None:
                yield _variable(program, keyword.arg, keyword.value, keyword.value)


def _variable(
    program: Program, name: str, value: ast.expr, node: ast.AST, only_unset: bool = False
) -> ChangedVariable:
    return ChangedVariable(name, value, node, only_unset or _asks_first(program, node))


def _asks_first(program: Program, node: ast.AST) -> bool:
    """Whether a test around it asks for the environment: `if "MASTER_ADDR" not in os.environ`."""
    return any(
        isinstance(each, ast.If) and mentions_environment(program, each.test) for each in ancestors(node)
    )
