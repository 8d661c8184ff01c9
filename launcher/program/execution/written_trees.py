"""The trees of a program as they are written, and for each of their nodes the one that all others know.

What reads a program changes its trees: a call gets what it unpacks, or becomes the one that its function
hands on. A run takes each step where and as often as it is written, and names the nodes that rules ask of.
Here, too, is what their indexes know of the names that a run finds without a value.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping

from launcher.program.index import (
    PARENT,
    SCOPE,
    FileIndex,
    FunctionNode,
    ancestors,
    file_of,
    is_package,
    scope_of,
)
from launcher.program.objects.nodes import children_of, walk
from launcher.program.program import Program

_PLACE = "place"
"""Where a node keeps the one that stands in its place in the tree that others read."""


_BINDING_OTHERS = frozenset({"globals", "exec", "execfile", "install"})
"""What gives values to names that nobody sees, as gettext's `install` does to `_`."""


class WrittenTrees:
    """The trees of the files of a program, each parsed when it is first run."""

    def __init__(self, program: Program) -> None:
        """Of a program of which no file is run yet."""
        self._bodies: dict[FileIndex, list[ast.stmt]] = {}

    def body(self, file: FileIndex) -> list[ast.stmt]:
        """The statements of a file as they are written."""
        if file not in self._bodies:
            self._bodies[file] = _body(file)
        return self._bodies[file]


def place_of(node: ast.AST) -> ast.AST:
    """The node that stands in the place of one that is run."""
    found = node.__dict__.get(_PLACE, node)
    return found if isinstance(found, ast.AST) else node


def call_at(node: ast.AST) -> ast.Call:
    """A call that Python makes by itself at a place, such as that of a property."""
    node = place_of(node)
    if isinstance(node, ast.Call):
        return node
    made = ast.Call(ast.Name("?"), [], [])
    made.__dict__.update({key: value for key, value in node.__dict__.items() if key not in made._fields})
    return made


def stand_at(node: ast.AST, tree: ast.AST) -> None:
    """Let all nodes of a tree stand in the place of one: what `eval` runs is told of where it is called."""
    for each in walk(tree):
        each.__dict__[_PLACE] = place_of(node)


def shows_all_bindings(read: ast.Name, program: Program) -> bool:
    """Whether a program gives a name its values, if any, by statements of the file that reads it."""
    place = place_of(read)
    if SCOPE not in place.__dict__ or (read.id.startswith("__") and read.id.endswith("__")):
        return False
    return not _hides_bindings(file_of(place), program)


def may_bind(file: FileIndex, name: str, program: Program) -> bool:
    """Whether a module may have a name when it has run to its end: by its own statements, by others that give
    it one, or by a file beside it of which nobody knows what it brings."""
    if name in file.module.bindings or "__getattr__" in file.module.bindings:
        return True
    if _hides_bindings(file, program) or any(name in each.set_attributes for each in program.files):
        return True
    folder = os.path.relpath(file.path.parent, program.root)
    return any(each.partition(".")[0] == name for each in program.entries(folder) if is_package(file))


def _hides_bindings(file: FileIndex, program: Program) -> bool:
    """Whether names of a file may get values in ways that nobody sees."""
    is_hidden = file.stars or _BINDING_OTHERS.intersection(file.mentioned)
    return bool(is_hidden or program.mentioning("builtins", "__builtin__"))


def tests_against_bindings(read: ast.Name, truths: Mapping[ast.expr, bool | None]) -> tuple[ast.expr, ...]:
    """The tests that kept a run from all that gives a function's variable a value, which it then reads; none
    where it may have one, also from a later turn of a loop, which is not run."""
    read_at = place_of(read)
    scope = scope_of(read_at)
    if not isinstance(scope.node, ast.FunctionDef):
        return ()
    known = {place_of(test): truth for test, truth in truths.items() if truth is not None}
    around = frozenset(ancestors(read_at))
    found = [_test_against(each.node, around, known) for each in scope.bindings.get(read.id, ())]
    return () if None in found else tuple(dict.fromkeys(each for each in found if each is not None))


def _test_against(
    node: ast.AST, around: frozenset[ast.AST], known: Mapping[ast.AST, bool]
) -> ast.expr | None:
    test: ast.expr | None = None
    below = node
    for each in ancestors(node):
        if isinstance(each, FunctionNode):
            return test
        if isinstance(each, ast.If) and each.test in known:
            if below in (each.orelse if known[each.test] else each.body):
                test = _decisive_part(each.test, known)
        elif isinstance(each, ast.BoolOp):
            before = each.values[: each.values.index(below)] if isinstance(below, ast.expr) else []
            decides = isinstance(each.op, ast.Or)
            test = next((part for part in before if known.get(part) is decides), test)
        elif test is not None and isinstance(each, ast.For | ast.AsyncFor | ast.While) and each not in around:
            test = test if _is_settled(test, each) else None
        below = each
    return None


def _decisive_part(test: ast.expr, known: Mapping[ast.AST, bool]) -> ast.expr:
    """The part of a test by which it is known: the first of `a and b` that does not hold."""
    decides = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
    parts = test.values if isinstance(test, ast.BoolOp) else []
    return next((each for each in parts if known.get(each) is decides), test)


def _is_settled(test: ast.expr, loop: ast.AST) -> bool:
    """Whether a test is the same in each turn of a loop, as nothing there stores what it reads."""
    nodes = [*walk(test)]
    names = {each.id for each in nodes if isinstance(each, ast.Name)}
    attributes = {each.attr for each in nodes if isinstance(each, ast.Attribute)}
    stored = [each for each in walk(loop) if isinstance(getattr(each, "ctx", None), ast.Store)]
    return (
        "self" not in names
        and not any(isinstance(each, ast.Call) for each in nodes)
        and names.isdisjoint(each.id for each in stored if isinstance(each, ast.Name))
        and attributes.isdisjoint(each.attr for each in stored if isinstance(each, ast.Attribute))
    )


def _body(file: FileIndex) -> list[ast.stmt]:
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return file.tree.body
    known: dict[object, ast.AST] = {}
    for each in walk(file.tree):
        if SCOPE in each.__dict__ and hasattr(each, "lineno"):
            known.setdefault(_key(each), each)
    waiting: list[tuple[ast.AST, ast.AST]] = [(each, file.tree) for each in tree.body]
    while waiting:
        node, above = waiting.pop()
        found = known.get(_key(node)) if hasattr(node, "lineno") else None
        if found is not None:
            node.__dict__[_PLACE] = above = found
        else:
            # What is written in another way there stands where it is written, for who asks what is around.
            node.__dict__[PARENT] = above
            if SCOPE in above.__dict__:
                node.__dict__[SCOPE] = above.__dict__[SCOPE]
            above = node
        # Operators and contexts, such as `ast.Load()`, are each one object for the trees of all files.
        below = (each for each in children_of(node) if each._fields or each._attributes)
        waiting.extend((each, above) for each in below)
    return tree.body


def _key(node: ast.AST) -> object:
    places = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return type(node), *(getattr(node, each) for each in places)
