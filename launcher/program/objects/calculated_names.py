"""Names of attributes that a program calculates, as far as they are written in it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Sequence

from launcher.frozen import frozen
from launcher.program.index import ProgramFiles, last_name, parent_of


def beginnings_of_calculated_names(files: ProgramFiles) -> tuple[str, ...]:
    """What the names begin with by which `getattr` reads: `on_` of `getattr(hook, f"on_{event}")`."""
    asked = [each for file in files.files for each in file.calls_of.get("getattr", ())]
    found = (_beginning(each.args[1]) for each in asked if len(each.args) > 1)
    return tuple(filter(None, found))


@frozen
class CallsByName:
    """The calls of what `getattr` reads: all the names that it may be given, None where these are not known,
    and what a name begins with that is calculated."""

    names: Collection[str] | None
    beginning: str
    calls: Sequence[ast.Call]

    def may_be(self, name: str) -> bool:
        """Whether what has this name may be called here."""
        return name.startswith(self.beginning) and (self.names is None or name in self.names)


def calls_by_getattr(
    files: ProgramFiles, names_asked_for: Callable[[ast.expr], Collection[str] | None]
) -> list[CallsByName]:
    """The calls of what each `getattr` gives, at once or by a name; `names_asked_for` says what names an
    expression may be."""
    found: list[CallsByName] = []
    for file in files.mentioning("getattr"):
        for read in file.calls_of.get("getattr", ()):
            around, calls = parent_of(read), list[ast.Call]()
            if isinstance(around, ast.Call) and last_name(around.func) is None:
                calls = [around]
            elif isinstance(around, ast.Assign) and isinstance(around.targets[0], ast.Name):
                calls = file.calls_of.get(around.targets[0].id, [])
            if calls and len(read.args) > 1:
                name = read.args[1]
                found.append(CallsByName(names_asked_for(name), _beginning(name), calls))
    return found


def _beginning(name: ast.expr) -> str:
    """What a name that is calculated surely begins with: `on_` of `f"on_{event}"`; nothing where that is not
    written in it."""
    first = name.values[0] if isinstance(name, ast.JoinedStr) and name.values else None
    first = name.left if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add) else first
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
