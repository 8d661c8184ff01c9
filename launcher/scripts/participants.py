"""Who runs a statement: every rank, or some, by the guards around it, before it, and around its callers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.agreement import Agreement
from launcher.scripts.arguments import argument
from launcher.scripts.callers import SPAWNING
from launcher.scripts.distributed import starts
from launcher.scripts.guard import Guard, Truth, opposite
from launcher.scripts.scopes import FunctionNode, ancestors, file_of, last_name
from launcher.scripts.values import Defined, External, Instance, RankKind

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_BLOCKS = ("body", "orelse", "finalbody")
_HARMLESS = (
    "torch.no_grad",
    "torch.inference_mode",
    "torch.enable_grad",
    "torch.distributed.elastic.multiprocessing.errors.record",
    "staticmethod",
    "classmethod",
    "hydra.main",
)
"""Decorators after which every rank still runs the function."""

_TELLING = ("rank", "main", "master", "primary", "chief", "leader", "root", "node", "host")
"""In the names of what may be true on one rank alone, and also differ between hosts as an option."""

_MAY_TELL = ("zero", "proc", "save", "writer")
"""In the names of what may be true on one rank alone, unless it is known to be alike on all.

Both only silence: where nobody knows, nothing is said. `epoch % args.save_every == 0` is known.
"""

_ON_ITS_OWN = ("gpu", "device", "local", "single", "distrib", "ddp", "parallel", "multi")
"""In the names of what may be a rank, or tell a run of one process from one of several: `args.gpu == 0`.

What stands under the name itself, `if args.distributed:`, is run by several processes.
"""


class Participants:
    """Who runs the statements of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program
        self.agreement = Agreement(program)
        self._functions: dict[ast.AST, Truth] = {}

    @cached_property
    def _starting(self) -> frozenset[tuple[str, bool]]:
        """The tests under which alone the program joins others, as written, and whether they hold."""
        found: frozenset[tuple[str, bool]] | None = None
        for call, _ in starts(self.program):
            around = set[tuple[str, bool]]()
            inner: ast.AST = call
            for outer in ancestors(call):
                if isinstance(outer, ast.If) and inner is not outer.test:
                    around.add(_written(outer.test, inner in outer.body))
                inner = outer
            found = frozenset(around) if found is None else found & around
        return found or frozenset()

    @cached_property
    def _spawning(self) -> frozenset[ast.Call]:
        """The calls by which the program starts its ranks itself."""
        calls = [call for call, _ in self.program.calls(*SPAWNING)]
        calls += filter(self._makes_ranks, self._processes())
        return frozenset(filter(self.program.reach.comes_to, calls))

    def _processes(self) -> Iterator[ast.Call]:
        """The calls that make a process of a function."""
        for file in self.program.files:
            for call in file.calls_of.get("Process", ()):
                if any(each.arg == "target" for each in call.keywords):
                    yield call

    def _makes_ranks(self, process: ast.Call) -> bool:
        """Whether the function of a process joins the others itself; others serve logs and load data."""
        target = argument(process, "target", 1)
        value = None if target is None else self.program.value(target)
        joining = [call for call, _ in starts(self.program)]
        return isinstance(value, Defined) and any(value.node in ancestors(call) for call in joining)

    def who(self, node: ast.AST) -> Truth:
        """True: every rank; a Guard: those ranks at most; False: none when distributed; None: unknown."""
        inner = node
        found: Truth = True
        for outer in ancestors(node):
            if isinstance(outer, ast.ExceptHandler | ast.ClassDef):
                return None
            found = _narrower(found, self._past_those_before(outer, inner))
            if isinstance(outer, FunctionNode):
                return _narrower(found, self._function(outer))
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                in_body = inner in outer.body if isinstance(outer, ast.If) else inner is outer.body
                found = _narrower(found, self._in_arm(outer.test, in_body))
            elif isinstance(outer, ast.BoolOp) and inner is not outer.values[0]:
                return None
            inner = outer
        # What stands in no function is run by the process that starts the ranks, before there are any.
        return found if found is not True or not self._spawning else None

    def _past_those_before(self, outer: ast.AST, inner: ast.AST) -> Truth:
        """Who comes to a statement past those before it in its block: `if rank != 0: return`."""
        found: Truth = True
        for name in _BLOCKS:
            block = getattr(outer, name, None)
            if isinstance(block, list) and inner in block:
                for before in block[: block.index(inner)]:
                    if isinstance(before, ast.If) and leaves(before.body) and not before.orelse:
                        found = _narrower(found, self._in_arm(before.test, in_body=False))
        return found

    def _in_arm(self, test: ast.expr, in_body: bool) -> Truth:
        """Who comes into one arm of a test, or past one whose body leaves."""
        if in_body and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            found: Truth = True
            for each in test.values:
                found = _narrower(found, self._in_arm(each, in_body=True))
            return found
        if _written(test, not in_body) in self._starting:
            return False
        truth = self.program.guards.truth(test)
        if isinstance(truth, Guard):
            if in_body:
                return truth
            return truth.opposite() if truth.exact else None
        if truth is not None:
            return truth if in_body else opposite(truth)
        if _is_main_guard(test) and file_of(test) is not self.program.entry:
            return not in_body  # The module is imported.
        # Where all ranks agree, or nothing hints at a rank, all come here or none.
        plain = _is_main_guard(test) or not self._hints_at_rank(test)
        if in_body and isinstance(test, ast.Name | ast.Attribute):
            return True if plain else None
        return True if plain and not _names_a_process(test) else None

    def _hints_at_rank(self, test: ast.expr) -> bool:
        """Whether a test asks what may be true on one rank alone, by its names, and nobody knows better."""
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and (last_name(node.func) or "").startswith(("is_", "should_")):
                return True
            if isinstance(node, ast.Name | ast.Attribute):
                word = (node.id if isinstance(node, ast.Name) else node.attr).lower()
                if any(each in word for each in _TELLING):
                    return True
                hints = word.startswith(("is_", "should_")) or any(each in word for each in _MAY_TELL)
                if hints and not self.agreement.holds(node):
                    return True
        return False

    def _function(self, function: FunctionNode) -> Truth:
        if function not in self._functions:
            self._functions[function] = None  # Where it is called by itself alone.
            self._functions[function] = self._called(function)
        return self._functions[function]

    def _called(self, function: FunctionNode) -> Truth:
        if isinstance(function, ast.Lambda):
            return None
        guard = self.program.guards.of_decorators(function)
        if guard is not None:
            return guard
        for decorator in function.decorator_list:
            value = self.program.value(decorator)
            if not isinstance(value, External | Instance) or value.name not in _HARMLESS:
                return None
        sites = self.program.evaluation.callers.of(function)
        if not sites:
            return None
        found = [True if site.call in self._spawning else self.who(site.call) for site in sites]
        if True in found:
            return True
        guards = [each for each in found if isinstance(each, Guard)]
        if None in found or not guards:
            return None
        return guards[0]


def leaves(block: list[ast.stmt]) -> bool:
    """Whether a block surely ends its function, its loop's round or the process."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.Return | ast.Raise | ast.Continue | ast.Break):
        return True
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        return ast.unparse(last.value.func) in ("sys.exit", "exit", "quit", "os._exit")
    return False


def _narrower(one: Truth, other: Truth) -> Truth:
    """Who runs what stands under both."""
    if one is False or other is False:
        return False
    guards = [each for each in (one, other) if isinstance(each, Guard)]
    if guards and None in (one, other) and guards[0].kind is not RankKind.GLOBAL:
        return None  # `local_rank == 0 and self.is_first_host`: nobody knows whether it is one rank of all.
    if guards:
        return next((each for each in guards if each.kind is RankKind.GLOBAL), guards[0])
    return True if one is True and other is True else None


def _written(test: ast.expr, holds: bool) -> tuple[str, bool]:
    """A test without its `not`, and whether it holds."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    return ast.unparse(test), holds


def _names_a_process(test: ast.expr) -> bool:
    """Whether a test asks which process this is, or whether it is the only one, by its names."""
    words = [
        (each.id if isinstance(each, ast.Name) else each.attr).lower()
        for each in ast.walk(test)
        if isinstance(each, ast.Name | ast.Attribute)
    ]
    return any(hint in word for hint in _ON_ITS_OWN for word in words)


def _is_main_guard(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"
