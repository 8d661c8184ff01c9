"""What expressions of a program are, as values of a job file: constants, and variables of the environment.

The reader of programs says what an expression surely is. Here come besides: numbers that are calculated,
`os.environ` (a job file has `${NAME}` for it), defaults of the program's own options, and tables that get
entries after they were written. Nothing is run, and what is not known is `Open`.
"""

from __future__ import annotations

import ast
import operator
import posixpath
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.frozen import frozen
from launcher.program.bindings import branch_arms
from launcher.program.index import Binding, BindingKind, file_of, function_of_parameter, last_name, scope_of
from launcher.program.process_environment import changed_variables
from launcher.program.program import Program, changes_of_table
from launcher.program.texts import filled_text
from launcher.program.values import Constant, Dictionary, External, Instance, Several, entries_of

_DEEPEST = 12
"""So many steps from an expression to where its value is written; what lies deeper is open."""

_MOST_HOPS = 2
"""From a name to what it is assigned, in a question."""

_LONGEST_TEXT = 160
"""Characters of an expression in a question."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_LARGEST = 10**15
"""Numbers beyond it are no field of a job file."""

_CONVERSIONS = {"int": int, "float": float, "str": str, "bool": bool}
_JOINED_PATHS = ("os.path.join", "posixpath.join")
_CURRENT_FOLDER = ("os.getcwd", "pathlib.Path.cwd")
_ENVIRONMENT_CALLS = ("os.getenv", "os.environ.get")


@frozen
class Known:
    """A value, as plain data; `comment` says what it depends on, empty where it depends on nothing.

    Texts are as a job file has them: `${NAME}` stands for a variable, `$${` for a literal `${`.
    """

    value: Any
    comment: str = ""


@frozen
class Open:
    """What the reader could not follow, by the text of its expression."""

    text: str


Reading = Known | Open


class ValueReader:
    """Reads the expressions of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is read before somebody asks."""
        self.program = program

    def read(self, node: ast.expr, depth: int = _DEEPEST) -> Reading:
        """What an expression is."""
        if depth <= 0:
            return self.open(node)
        value = self.program.value(node)
        if isinstance(value, Constant):
            text = value.value
            return Known(text.replace("${", "$${") if isinstance(text, str) else text)
        if isinstance(value, Several):
            if last_name(node) in self.program.grown:
                return self.open(node)
            return self._together(node, [self.read(each, depth - 1) for each in value.node.elts])
        if isinstance(value, Dictionary):
            return self._table(node, depth)
        return self._structure(node, depth) or self.open(node)

    def open(self, node: ast.expr) -> Open:
        """An expression that stays open, as it is written where a name gets it from one place alone."""
        for _ in range(_MOST_HOPS):
            sources = self.program.evaluation.sources(node) if isinstance(node, ast.Name) else []
            only = sources[0] if len(sources) == 1 else None
            if (
                only is None
                or only.kind is not BindingKind.ASSIGNED
                or only.value is None
                or only.item is not None
            ):
                break
            node = only.value
        text = " ".join(ast.unparse(node).split())
        return Open(text if len(text) <= _LONGEST_TEXT else f"{text[: _LONGEST_TEXT - 3]}...")

    def entries(self, node: ast.expr) -> list[tuple[str, ast.expr | None, ast.expr]] | None:
        """The entries of a table: key, value, and where it stands; None where it is no written table.

        A key whose value depends on what runs has none. What is put into a name's table before it is used is
        among them; an entry that nobody can name has the key `?`.
        """
        found = self._written(node)
        if found is None:
            return None
        name = last_name(node) if isinstance(node, ast.Name | ast.Attribute) else None
        table = self.program.value(node)
        begin = table.node.lineno if isinstance(table, Dictionary) else 0
        for place, added in changes_of_table(file_of(node), name) if name else ():
            is_here = scope_of(place) is scope_of(node)
            # One of the same name may have been another table before.
            if is_here and not begin <= place.lineno < node.lineno:
                continue
            surely = is_here and branch_arms(place) <= branch_arms(node)
            for key, value in self._added(added):
                found[key] = (value if surely else None, place)
            if added is None:
                found["?"] = (None, place)
        if not isinstance(node, ast.Name | ast.Attribute | ast.Dict) and self._is_made_of_changed(node):
            found["?"] = (None, node)
        return [(key, value, place) for key, (value, place) in found.items()]

    def _is_made_of_changed(self, node: ast.expr) -> bool:
        """Whether a table is made of another one that gets entries after it was written."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        return any(any(True for _ in changes_of_table(file_of(node), name)) for name in names)

    def _added(self, added: list[ast.keyword] | None) -> Iterator[tuple[str, ast.expr | None]]:
        for each in added or ():
            if each.arg is not None:
                yield each.arg, each.value
                continue
            inner = self._written(each.value)
            if inner is None:
                yield "?", None
            else:
                yield from ((key, value) for key, (value, _) in inner.items())

    def _written(self, node: ast.expr, depth: int = 5) -> dict[str, tuple[ast.expr | None, ast.expr]] | None:
        table = self.program.value(node)
        if not isinstance(table, Dictionary):
            return None
        found: dict[str, tuple[ast.expr | None, ast.expr]] = {}
        for key, item in entries_of(table.node):
            if key is None:
                inner = self._written(item, depth - 1) if depth else None
                found.update({"?": (None, item)} if inner is None else inner)
                continue
            name = self.read(key)
            if isinstance(name, Known):
                found[str(name.value)] = (item, item)
            else:
                found["?"] = (None, item)
        return found

    def _table(self, node: ast.expr, depth: int) -> Reading:
        whole: dict[str, Any] = {}
        comments: list[str] = []
        for key, value, _ in self.entries(node) or ():
            read = self.open(node) if value is None else self.read(value, depth - 1)
            if isinstance(read, Open):
                return self.open(node)
            whole[key] = read.value
            comments.append(read.comment)
        return Known(whole, "; ".join(filter(None, dict.fromkeys(comments))))

    def _together(self, node: ast.expr, read: list[Reading]) -> Reading:
        known = [each for each in read if isinstance(each, Known)]
        if len(known) < len(read):
            return self.open(node)
        comments = dict.fromkeys(each.comment for each in known)
        return Known([each.value for each in known], "; ".join(filter(None, comments)))

    def _structure(self, node: ast.expr, depth: int) -> Reading | None:
        """What an expression is by its form; None where that says nothing."""
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Subscript):
            if self.program.value(node.value) == External("os.environ"):
                return self._variable(node.slice, None, depth)
            return None
        if isinstance(node, ast.BinOp):
            made = self._calculated(node, depth)
            if made is not None:
                return made
        if isinstance(node, ast.JoinedStr | ast.BinOp):
            return self._text(node, depth)
        if isinstance(node, ast.Attribute) and (option := self._option(node, depth)) is not None:
            return option
        if isinstance(node, ast.Name | ast.Attribute):
            return self._by_source(node, depth)
        return None

    def _calculated(self, node: ast.BinOp, depth: int) -> Reading | None:
        made = _OPERATORS.get(type(node.op))
        left = self.read(node.left, depth - 1)
        right = self.read(node.right, depth - 1) if isinstance(left, Known) else left
        if made is None or not isinstance(left, Known) or not isinstance(right, Known):
            return None
        pair = (left.value, right.value)
        is_text = all(isinstance(each, str) for each in pair) and isinstance(node.op, ast.Add)
        if not is_text and not all(
            isinstance(each, int | float) and not isinstance(each, bool) and abs(each) <= _LARGEST
            for each in pair
        ):
            return None
        comment = "; ".join(filter(None, dict.fromkeys((left.comment, right.comment))))
        try:
            return Known(made(*pair), comment)
        except ZeroDivisionError:
            return None

    def _text(self, node: ast.expr, depth: int) -> Reading | None:
        """An f-string, or `%` or `format` with a written template, of parts that are known or variables."""
        template = filled_text(node, self.program.value)
        if template is None:
            return None
        parts: list[Known] = []
        for each in template.values:
            part = each
            if isinstance(each, ast.FormattedValue):
                if each.format_spec is not None or each.conversion not in (-1, ord("s")):
                    return None
                part = each.value
            read = self.read(part, depth - 1)
            if isinstance(read, Open) or not isinstance(read.value, str | int | float):
                return None
            parts.append(read)
        comments = dict.fromkeys(each.comment for each in parts)
        return Known("".join(str(each.value) for each in parts), "; ".join(filter(None, comments)))

    def _call(self, node: ast.Call, depth: int) -> Reading | None:
        name = self.program.qualified(node.func) or last_name(node.func)
        if name in _ENVIRONMENT_CALLS and node.args:
            default = node.args[1] if len(node.args) > 1 else None
            return self._variable(node.args[0], default, depth)
        if name in _JOINED_PATHS:
            read = self._together(node, [self.read(each, depth - 1) for each in node.args])
            if isinstance(read, Known) and all(isinstance(each, str) for each in read.value):
                return Known(posixpath.join(*read.value), read.comment) if read.value else None
            return None
        if name in _CURRENT_FOLDER:
            return Known(".")
        if name in _CONVERSIONS and len(node.args) == 1 and not node.keywords:
            read = self.read(node.args[0], depth - 1)
            if isinstance(read, Known) and isinstance(read.value, str | int | float):
                return self._converted(_CONVERSIONS[name], read)
            return None
        if name in ("list", "tuple") and len(node.args) == 1:
            read = self.read(node.args[0], depth - 1)
            return read if isinstance(read, Known) and isinstance(read.value, list) else None
        return self._text(node, depth)

    @staticmethod
    def _converted(kind: Callable[[Any], Any], read: Known) -> Reading | None:
        if isinstance(read.value, str) and "${" in read.value:
            return read if kind in (str, int, float) else None
        try:
            return Known(kind(read.value), read.comment)
        except (ValueError, OverflowError):
            return None

    def _variable(self, name: ast.expr, default: ast.expr | None, depth: int) -> Reading | None:
        """A variable of the environment: `${NAME}`, or the program's own default where it has one."""
        named = self.read(name, depth - 1)
        if not isinstance(named, Known) or not isinstance(named.value, str):
            return None
        if named.value in {each.name for each in changed_variables(self.program)}:
            return None
        if default is None:
            return None if named.value.upper().startswith("AWS_") else Known(f"${{{named.value}}}")
        read = self.read(default, depth - 1)
        if not isinstance(read, Known) or read.value is None:
            return None
        return Known(read.value, f"where {named.value} is not set")

    def _option(self, node: ast.Attribute, depth: int) -> Reading | None:
        """The default of an option of the program's own parser."""
        owner = self.program.value(node.value)
        if not isinstance(owner, Instance) or not owner.name.startswith("argparse."):
            return None
        defaults = self.program.evaluation.attributes.options.defaults(node.attr)
        if len(defaults) != 1:
            return None
        read = self.read(defaults[0], depth - 1)
        if not isinstance(read, Known) or read.value is None:
            return None
        return Known(read.value, f"the default of --{node.attr}")

    def _by_source(self, node: ast.expr, depth: int) -> Reading | None:
        """What the one place gives that a name gets its value from."""
        sources = self.program.evaluation.sources(node)
        if len(sources) != 1:
            return None
        source = sources[0]
        if (assigned := _assigned(source)) is not None:
            return self.read(assigned, depth - 1)
        if source.kind is BindingKind.PARAMETER and isinstance(source.node, ast.arg):
            function = function_of_parameter(source.node)
            sites = None if function is None else self.program.evaluation.callers.call_sites(function)
            given = sites[0].given_or_default(source.node) if sites and len(sites) == 1 else None
            return None if given is None else self.read(given, depth - 1)
        return None


def _assigned(binding: Binding) -> ast.expr | None:
    """What a name is given as a whole; None where it gets its value otherwise."""
    is_whole = binding.kind is BindingKind.ASSIGNED and binding.item is None
    return binding.value if is_whole else None
