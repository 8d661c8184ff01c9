"""Texts that a program puts together: by f-strings, `format`, `%`, `join` and `+`; and which folders it adds
to those of its modules.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Container, Iterator, Sequence
from itertools import count
from pathlib import Path
from string import Formatter

from launcher.program.index import FileIndex, dotted_name, last_name, parent_of, positional_of, scope_of
from launcher.program.values import UNKNOWN, Constant, Evaluated, Value, elements_of, like

_PERCENT = re.compile(r"%(?:\((\w+)\))?([-+ #.*\d]*[a-zA-Z%])")
"""A place of a `%` template, by its name or by its number."""

_WITHIN = re.compile(r"\.(\w+)|\[(\w+)\]")
"""An attribute or an entry of what is filled in: `{args.host}`, `{cluster[port]}`."""

_PLAIN = ("", "d", "s")
"""The formats that write a number or a text as `str` does."""

JOINING = ("format", "format_map", "join")
"""The last names of the methods that put texts together."""


def text_of(node: ast.expr, evaluated: Evaluated, grown: Container[str | None] = ()) -> Value:
    """A text whose parts are all known; not of a list that is `grown`, which gets others later."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left = evaluated(node.left)
        return _joined([left, evaluated(node.right)], "") if isinstance(left, Constant) else UNKNOWN
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "join":
        between = _written(node.func.value, evaluated)
        listed = elements_of(evaluated(node.args[0]), evaluated, node) if len(node.args) == 1 else None
        if not listed or between is None or last_name(node.args[0]) in grown:
            return UNKNOWN
        return _joined([*map(evaluated, listed)], between)
    made = filled_text(node, evaluated)
    if made is None or any(_format_of(each) not in _PLAIN for each in made.values):
        return UNKNOWN
    parts = [each.value if isinstance(each, ast.FormattedValue) else each for each in made.values]
    return _joined([Constant(""), *map(evaluated, parts)], "")


def _joined(parts: list[Value], between: str) -> Value:
    """What these parts are together, where one of them is a text; `str` around a number is left out.

    With None among them it is no text that anybody wants: a test of it stands around.
    """
    known = [each.value for each in parts if isinstance(each, Constant) and each.value is not None]
    if len(known) < len(parts) or not any(isinstance(each, str) for each in known):
        return UNKNOWN
    return Constant(between.join(map(str, known)))


def _format_of(part: ast.expr) -> str:
    """The format in which a part is written; `?` stands for what is not written itself."""
    given = part.format_spec if isinstance(part, ast.FormattedValue) else None
    written = given.values if isinstance(given, ast.JoinedStr) else []
    return "".join(str(each.value) if isinstance(each, ast.Constant) else "?" for each in written)


def filled_text(node: ast.expr, evaluated: Evaluated) -> ast.JoinedStr | None:
    """An f-string, or the one that `format`, `format_map` or `%` with a written template stands for."""
    named: dict[str | None, ast.expr] = {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text, given = _written(node.left, evaluated), node.right
        if text is None:
            return None
        by_name = any(each[1] for each in _PERCENT.finditer(text))
        listed = given.elts if isinstance(given, ast.Tuple) else [given]
        named, listed = ({None: given}, []) if by_name else ({}, listed)
        text = _PERCENT.sub(_as_brace, text.replace("{", "{{").replace("}", "}}"))
    elif isinstance(node, ast.Call) and last_name(node.func) in ("format", "format_map"):
        text = _written(node.func.value, evaluated) if isinstance(node.func, ast.Attribute) else None
        listed, named = node.args, {each.arg: each.value for each in node.keywords}
        if last_name(node.func) == "format_map" and listed:
            listed, named = [], {None: node.args[0]}
    else:
        return node if isinstance(node, ast.JoinedStr) else None
    return None if text is None else _filled(node, text, _Given(listed, named, evaluated))


def _written(node: ast.expr, evaluated: Evaluated) -> str | None:
    value = evaluated(node)
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else None


def _as_brace(place: re.Match[str]) -> str:
    form = "" if place[2] in ("s", "d", "i") else ":?"
    return "%" if place[2] == "%" else f"{{{place[1] or ''}{form}}}"


class _Given:
    """What a template is given: by position, and by name; below None a table of names."""

    def __init__(
        self, listed: list[ast.expr], named: dict[str | None, ast.expr], evaluated: Evaluated
    ) -> None:
        self.listed: list[ast.expr] = []
        for each in listed:
            inner = [each]
            if isinstance(each, ast.Starred):
                inner = elements_of(evaluated(each.value), evaluated, each) or [each]
            self.listed += inner
        self.named = named
        self.numbers = count()

    def value(self, node: ast.expr, place: str) -> ast.expr | None:
        """The expression at a place such as `0`, `host`, `args.host`; None where that is not written."""
        name = re.match(r"\w*", place)[0]  # type: ignore[index]
        if not name or name.isdigit():
            number = int(name or next(self.numbers))
            found = self.listed[number] if number < len(self.listed) else None
        elif name in self.named or None not in self.named:
            found = self.named.get(name)
        else:
            found = like(node, ast.Subscript(self.named[None], like(node, ast.Constant(name)), ast.Load()))
        for attribute, key in _WITHIN.findall(place):
            if found is None or isinstance(found, ast.Starred):
                return None
            entry = like(node, ast.Constant(int(key) if key.isdigit() else key))
            made = ast.Attribute(found, attribute, ast.Load()) if attribute else ast.Subscript(found, entry)
            found = like(node, made)
        return None if isinstance(found, ast.Starred) else found


def _filled(node: ast.expr, text: str, given: _Given) -> ast.JoinedStr | None:
    parts: list[ast.expr] = []
    try:
        for before, place, form, _ in Formatter().parse(text):
            if before:
                parts.append(like(node, ast.Constant(before)))
            if place is not None:
                if (value := given.value(node, place)) is None:
                    return None
                spec = ast.JoinedStr([ast.Constant(form)]) if form else None
                parts.append(like(node, ast.FormattedValue(value, -1, spec)))
    except ValueError:  # A template that Python would not read.
        return None
    return like(node, ast.JoinedStr(parts))


_MOST_NESTED = 12


def adds_folders(file: FileIndex) -> bool:
    """Whether a file adds folders to those in which Python looks for modules, whichever these are."""
    return next(_calls_that_add(file), None) is not None


def folders_added(file: FileIndex, known: Sequence[Path], root: Path) -> list[Path]:
    """The folders below `root` that a file adds to those in which Python looks for modules.

    As far as they are written: by `__file__`, or below a `known` one, in which the program may be started.
    """
    found: dict[str, Path] = {}
    calls = list(_calls_that_add(file))
    if not calls:
        return []
    above, already = os.path.realpath(root), {os.path.realpath(each) for each in known}
    for place in (each for call in calls for each in _given(call.args[-1], file)):
        for folder in _folder(place, file, known):
            real = os.path.realpath(folder)
            if _is_below(real, above) and real not in already and Path(real).is_dir():
                found[real] = root / os.path.relpath(real, above)
    return list(found.values())


def folders_added_outside(file: FileIndex, known: Sequence[Path], root: Path) -> list[Path] | None:
    """The folders outside of `root` that a file adds to those in which Python looks for modules.

    None where it does anything with them that is not written out, or adds one that is not there on this
    machine: somewhere else it may be.
    """
    found: list[Path] = []
    calls = list(_calls_that_add(file))
    asked = [each for each in file.attributes.get("path", ()) if dotted_name(each) == "sys.path"]
    read = {call.func.value for call in calls if isinstance(call.func, ast.Attribute)}
    if any(each.name == "sys.path" for each in file.set_attributes.get("path", ())):
        return None
    if any(each not in read and not isinstance(parent_of(each), ast.Compare) for each in asked):
        return None
    places = [_given(call.args[-1], file) for call in calls]
    if not all(places):
        return None
    for place in (each for one in places for each in one):
        paths = (os.path.realpath(each) for each in _folder(place, file, known))
        folders = [each for each in paths if Path(each).is_dir()]
        if not folders:
            return None
        if not any(_is_below(each, os.path.realpath(root)) for each in folders):
            found += map(Path, folders)
    return found


def _calls_that_add(file: FileIndex) -> Iterator[ast.Call]:
    for name in ("append", "insert") if "sys.path" in file.text else ():
        for call in file.calls_of.get(name, ()):
            if dotted_name(call.func) == f"sys.path.{name}" and call.args:
                yield call


def _given(place: ast.expr, file: FileIndex) -> list[ast.expr]:
    """What a parameter gets by the calls of its function in the same file; anything else is itself."""
    function = scope_of(place).function
    if not isinstance(place, ast.Name) or function is None or not isinstance(function.node, ast.FunctionDef):
        return [place]
    names = [each.arg for each in positional_of(function.node)]
    if place.id not in names:
        return [place]
    number, calls = names.index(place.id), file.calls_of.get(function.node.name, ())
    return [each.args[number] for each in calls if len(each.args) > number]


def _is_below(folder: str, above: str) -> bool:
    return f"{folder}{os.sep}".startswith(above + os.sep)


def folders_between(folder: Path, root: Path) -> tuple[Path, ...]:
    """The folders above a script's and below the root, the nearest first.

    One of them is where the program is started, where people write `cd src; python -m main.train`.
    """
    place, top = Path(os.path.realpath(folder)), Path(os.path.realpath(root))
    return tuple(root / each.relative_to(top) for each in place.parents if top in each.parents)


def _folder(
    node: ast.AST, file: FileIndex, working: Sequence[Path], depth: int = _MOST_NESTED
) -> tuple[Path, ...]:
    """The folders that a path may mean; none where it is not written out."""
    match node:
        case ast.Name(id="__file__"):
            return (file.path.absolute(),)
        case ast.Constant(value=str() as text) if text and "\0" not in text:
            return tuple(each / text for each in working)
        case _ if not depth:
            return ()
        case ast.Name(id=name):
            bound = file.module.bindings.get(name, [])
            only = bound[0].value if len(bound) == 1 else None
            return () if only is None else _folder(only, file, working, depth - 1)
        case ast.Attribute(value=owner, attr="parent"):
            return tuple(each.parent for each in _folder(owner, file, working, depth - 1))
        case ast.Subscript(
            value=ast.Attribute(value=owner, attr="parents"), slice=ast.Constant(value=int() as up)
        ):
            inner = _folder(owner, file, working, depth - 1)
            return tuple(each.parents[up] for each in inner if 0 <= up < len(each.parents))
        case ast.BinOp(op=ast.Div(), left=first, right=ast.Constant(value=str() as last)):
            return tuple(each / last for each in _folder(first, file, working, depth - 1))
        case ast.Call(func=function, args=args):
            called = last_name(function)
            if called in ("resolve", "absolute", "as_posix") and isinstance(function, ast.Attribute):
                return _folder(function.value, file, working, depth - 1)
            if called in ("getcwd", "cwd"):
                return tuple(working)
            inner = _folder(args[0], file, working, depth - 1) if args else ()
            if called == "dirname":
                return tuple(each.parent for each in inner)
            if called in ("abspath", "realpath", "normpath", "str", "Path", "expanduser", "fspath"):
                return inner
            added = [each.value for each in args[1:] if isinstance(each, ast.Constant)]
            if called == "join" and [*map(type, added)] == [str] * (len(args) - 1):
                return tuple(each.joinpath(*map(str, added)) for each in inner)
    return ()
