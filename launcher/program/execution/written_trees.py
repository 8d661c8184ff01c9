"""The trees of a program as they are written, and for each of their nodes the one that all others know.

What reads a program changes its trees: a call gets what it unpacks, or becomes the one that its function
hands on. A run takes each step where and as often as it is written, and names the nodes that rules ask of.
"""

from __future__ import annotations

import ast

from launcher.program.index import PARENT, SCOPE, FileIndex
from launcher.program.program import Program

_PLACE = "place"
"""Where a node keeps the one that stands in its place in the tree that others read."""


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
    for each in ast.walk(tree):
        each.__dict__[_PLACE] = place_of(node)


def _body(file: FileIndex) -> list[ast.stmt]:
    try:
        tree = ast.parse(file.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return file.tree.body
    known: dict[object, ast.AST] = {}
    for each in ast.walk(file.tree):
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
        below = (each for each in ast.iter_child_nodes(node) if each._fields or each._attributes)
        waiting.extend((each, above) for each in below)
    return tree.body


def _key(node: ast.AST) -> object:
    places = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    return type(node), *(getattr(node, each) for each in places)
