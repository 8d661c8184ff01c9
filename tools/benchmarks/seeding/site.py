"""A file of a program, as the placement of defects sees it: by `ast` alone, without the lint's own reader.

What is asked is coarse on purpose: who seeds a defect must be sure that it is one, and need not find any.
It is names of libraries through the imports of the file, tests of the rank by how they are written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

MENTIONS_RANK = re.compile(
    r"rank|main_process|master|primary|is_main|is_logging|process_index", re.IGNORECASE
)
"""What hints at a test that differs between ranks; taken widely, where none must stand."""

TESTS_RANK_0 = re.compile(
    r"[\w.]*\b(_?rank|global_rank|_global_rank|RANK|WORLD_RANK)\s*==\s*0"
    r"|[\w.]*\b(RANK|rank) in (\{-1, 0\}|\(-1, 0\)|\[-1, 0\])"
    r"|[\w.]*\b(_?is_main_process|is_master|is_primary|_?is_rank_zero|master_process|is_global_zero)(\([\w.]*\))?"
)
"""What is surely a test for rank 0 of all, by how public programs write it."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A file with a defect: its text, the lines at which it must be found, and the codes that say so."""

    kind: str
    path: Path
    text: str
    lines: frozenset[int]
    codes: frozenset[str]


class Site:
    """One file: its text, tree, and what its names are."""

    def __init__(self, path: Path, text: str) -> None:
        """Raises SyntaxError for what is no Python of this version."""
        self.path, self.text, self.tree = path, text, ast.parse(text)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}
        starts = [0]
        for line in text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line.encode()))
        self._starts = starts
        self._bytes = text.encode()
        self._left: dict[FunctionNode, bool] = {}

    @cached_property
    def imported(self) -> dict[str, str]:
        """The dotted names that imports give to names, wherever in the file they stand."""
        found = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for each in node.names:
                    name = each.asname or each.name.partition(".")[0]
                    found[name] = each.name if each.asname else name
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for each in node.names:
                    found[each.asname or each.name] = f"{node.module}.{each.name}"
        return found

    def dotted(self, node: ast.AST) -> str:
        """The dotted name of an expression through the imports; empty where it is none of theirs."""
        if isinstance(node, ast.Attribute):
            holder = self.dotted(node.value)
            return holder and f"{holder}.{node.attr}"
        return self.imported.get(node.id, "") if isinstance(node, ast.Name) else ""

    def alias(self, module: str) -> str | None:
        """The name under which a module is imported at the top of the file."""
        names = [name for name, whole in self.imported.items() if whole == module]
        return names[0] if names else None

    @cached_property
    def calls(self) -> list[ast.Call]:
        """Every call, in the order of the text."""
        calls = [node for node in ast.walk(self.tree) if isinstance(node, ast.Call)]
        return sorted(calls, key=lambda call: (call.lineno, call.col_offset))

    def calls_of(self, *names: str) -> Iterator[ast.Call]:
        """The calls of what a library has under these dotted names."""
        for call in self.calls:
            if self.dotted(call.func) in names:
                yield call

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What stands around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def under_main_guard(self, node: ast.AST) -> bool:
        """Whether a node runs only where its file is the one that is started."""
        return any(
            isinstance(each, ast.If) and "__name__" in self.source(each.test) for each in self.around(node)
        )

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement in which a node stands."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, node: ast.AST) -> FunctionNode | None:
        """The innermost function around a node."""
        return next((each for each in self.around(node) if isinstance(each, FunctionNode)), None)

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements among which one stands."""
        holder = self.parents[statement]
        for _, value in ast.iter_fields(holder):
            if isinstance(value, list) and statement in value:
                return value
        return [statement]

    def source(self, node: ast.AST) -> str:
        """A node as it is written."""
        start, end = self.span(node)
        return self._bytes[start:end].decode()

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends, in bytes."""
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def replaced(self, edits: Iterable[tuple[tuple[int, int], str]]) -> str:
        """The text with these parts written anew."""
        data = self._bytes
        for (start, end), new in sorted(edits, reverse=True):
            data = data[:start] + new.encode() + data[end:]
        return data.decode()

    def lines_of(self, node: ast.AST) -> range:
        """The lines on which a node stands."""
        assert isinstance(node, ast.expr | ast.stmt)
        return range(node.lineno, (node.end_lineno or node.lineno) + 1)

    def indent(self, statement: ast.stmt) -> str | None:
        """The blanks before a statement, if it begins its line."""
        before = self.text.splitlines()[statement.lineno - 1].encode()[: statement.col_offset].decode()
        return before if not before.strip() else None

    def with_before(self, statement: ast.stmt, lines: list[str]) -> str | None:
        """The text with lines before a statement, indented as it is."""
        indent = self.indent(statement)
        if indent is None:
            return None
        start = self._starts[statement.lineno - 1]
        return self.replaced([((start, start), "".join(f"{indent}{line}\n" for line in lines))])

    def put_under(
        self, statements: list[ast.stmt], heads: list[str], tails: Sequence[str] = ()
    ) -> str | None:
        """The text with statements of one block under a head such as `if ...:`, lines behind them."""
        first, last = statements[0], statements[-1]
        indent = self.indent(first)
        if indent is None or last.end_lineno is None:
            return None
        lines = self.text.splitlines(keepends=True)
        inner = [
            f"    {line}" if line.strip() else line for line in lines[first.lineno - 1 : last.end_lineno]
        ]
        around = [f"{indent}{head}\n" for head in heads], [f"{indent}{tail}\n" for tail in tails]
        return "".join(
            [*lines[: first.lineno - 1], *around[0], *inner, *around[1], *lines[last.end_lineno :]]
        )

    def with_argument(self, call: ast.Call, name: str, value: str | None) -> str | None:
        """The text with an argument of a call set, or left out where `value` is None."""
        given = next((each for each in call.keywords if each.arg == name), None)
        if any(each.arg is None for each in call.keywords):
            return None
        if value is None:
            if given is None:
                return None
            start, end = self.span(given)
            after = re.match(rb"\s*,\s*", self._bytes[end:])
            if after:
                return self.replaced([((start, end + after.end()), "")])
            before = re.search(rb",\s*$", self._bytes[:start])
            return self.replaced([((before.start() if before else start, end), "")])
        if given is not None:
            return self.replaced([(self.span(given.value), value)])
        end = self.span(call)[1] - 1
        kept = self._bytes[:end].rstrip()
        comma = "" if kept.endswith((b",", b"(")) else ", "
        if b"#" in self._bytes[:end].splitlines()[-1]:
            return None
        return self.replaced([((len(kept), len(kept)), f"{comma}{name}={value}")])

    def is_open(self, call: ast.Call) -> bool:
        """Whether a call has `**arguments` or `*arguments`."""
        starred = any(isinstance(each, ast.Starred) for each in call.args)
        return starred or any(each.arg is None for each in call.keywords)

    def keyword(self, call: ast.Call, name: str) -> ast.expr | None:
        """The value of a keyword of a call."""
        return next((each.value for each in call.keywords if each.arg == name), None)

    def under_rank(self, node: ast.AST) -> bool:
        """Whether anything around a node, or a return before it, may depend on the rank."""
        inner = node
        for outer in self.around(node):
            if isinstance(outer, ast.If | ast.While | ast.IfExp) and inner is not outer.test:
                if MENTIONS_RANK.search(self.source(outer.test)):
                    return True
            elif isinstance(outer, ast.With) and any(
                MENTIONS_RANK.search(self.source(item.context_expr))
                or "first" in self.source(item.context_expr)
                for item in outer.items
            ):
                return True
            elif isinstance(outer, FunctionNode):
                if any(MENTIONS_RANK.search(self.source(each)) for each in outer.decorator_list):
                    return True
                return self._left_by_rank(outer)
            inner = outer
        return False

    def _left_by_rank(self, function: FunctionNode) -> bool:
        if function not in self._left:
            self._left[function] = self._leaves_by_rank(function)
        return self._left[function]

    def _leaves_by_rank(self, function: FunctionNode) -> bool:
        return any(
            isinstance(each, ast.If)
            and MENTIONS_RANK.search(self.source(each.test))
            and any(isinstance(part, ast.Return | ast.Continue | ast.Break) for part in ast.walk(each))
            for each in ast.walk(function)
        )

    def guard(self, statement: ast.stmt) -> str | None:
        """A test for rank 0 that means something before a statement: the function's own, or torch's."""
        function = self.function(statement)
        tests = []
        if function is not None:
            for each in ast.walk(function):
                if isinstance(each, ast.If) and TESTS_RANK_0.fullmatch(self.source(each.test)):
                    base = next(part for part in ast.walk(each.test) if isinstance(part, ast.Name))
                    if self._bound_before(base.id, function, statement):
                        tests.append(self.source(each.test))
        dist = self.alias("torch.distributed")
        if dist is None and self.alias("torch") == "torch":
            dist = "torch.distributed" if "torch.distributed" in self.text else None
        if dist is not None:
            tests.insert(statement.lineno % 2 if tests else 0, f"{dist}.get_rank() == 0")
        elif function is not None and not tests:
            for name in ("accelerator", "fabric"):
                if self._bound_before(name, function, statement) and re.search(rf"\b{name}\.", self.text):
                    ends = "is_main_process" if name == "accelerator" else "is_global_zero"
                    tests.append(f"{name}.{ends}")
        return tests[0] if tests else None

    def _bound_before(self, name: str, function: FunctionNode, statement: ast.stmt) -> bool:
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        if name in self.imported or any(each.arg == name for each in given):
            return True
        if any(isinstance(each, FunctionNode) and each.name == name for each in self.tree.body):
            return True
        bound = [
            each
            for each in ast.walk(self.tree)
            if isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store)
        ]
        own = [each for each in bound if self.function(each) is function]
        if own:
            return min(each.lineno for each in own) < statement.lineno and not any(
                isinstance(outer, ast.If | ast.For | ast.While | ast.Try)
                for outer in self.around(min(own, key=lambda each: each.lineno))
                if outer in ast.walk(function) and statement not in ast.walk(outer)
            )
        return any(self.function(each) is None for each in bound)
