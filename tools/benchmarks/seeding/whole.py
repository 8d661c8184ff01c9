"""All files of a program, as the placement of defects sees them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, wraps
from types import UnionType

from tools.benchmarks.seeding.site import FunctionNode, Mutant, Site

COLLECTIVES = frozenset(
    f"torch.distributed.{name}"
    for name in (
        *("barrier", "monitored_barrier", "all_reduce", "reduce", "reduce_scatter_tensor", "broadcast"),
        *("broadcast_object_list", "all_gather", "all_gather_object", "all_gather_into_tensor", "gather"),
        "gather_object",
    )
)
METHODS = frozenset({("accelerator", "wait_for_everyone"), ("fabric", "barrier")})
WRAPPERS = re.compile(r"\b(DistributedDataParallel|DDP|FullyShardedDataParallel|FSDP|fully_shard)\(")
_DISTRIBUTED_ONLY = re.compile(r"world_size|is_initialized|is_available|is_dist|num_nodes|has_batchnorms")


class Whole:
    """The sites of a program, the first of them its entry."""

    def __init__(self, sites: list[Site]) -> None:
        """Nothing is looked at before somebody asks."""
        self.sites = sites
        self.text = "\n".join(site.text for site in sites)

    @cached_property
    def functions(self) -> dict[str, list[tuple[Site, FunctionNode]]]:
        """The functions and methods by their names; a class's __init__ by the name of the class as well."""
        found: dict[str, list[tuple[Site, FunctionNode]]] = {}
        for site in self.sites:
            for node in ast.walk(site.tree):
                if isinstance(node, FunctionNode):
                    found.setdefault(node.name, []).append((site, node))
                    holder = site.parents[node]
                    if node.name == "__init__" and isinstance(holder, ast.ClassDef):
                        found.setdefault(holder.name, []).append((site, node))
        return found

    @cached_property
    def reached(self) -> set[FunctionNode]:
        """The functions whose names the modules, or functions that are reached, speak of.

        What a module does when it is started is done by the entry alone. A name that a file gives to a
        function of its own, such as `main`, means that one there, whoever else has a function of this name.
        """
        reached = set[FunctionNode]()
        waiting = []
        for site in self.sites:
            run = [each for each in site.tree.body if site is self.sites[0] or not _is_main_guard(each)]
            waiting += [(site, name) for name in _names(ast.Module(run, []))]
        seen = set[tuple[Site, str]]()
        while waiting:
            site, name = waiting.pop()
            if (site, name) not in seen:
                seen.add((site, name))
                found = self.functions.get(name, [])
                own = [
                    (each, node) for each, node in found if each is site and site.parents[node] is site.tree
                ]
                for each, node in own or found:
                    if node not in reached:
                        reached.add(node)
                        waiting.extend((each, more) for more in _names(node))
        return reached

    @cached_property
    def _calls_by_name(self) -> dict[str, list[tuple[Site, ast.Call]]]:
        found: dict[str, list[tuple[Site, ast.Call]]] = {}
        for site in self.sites:
            for call in site.calls:
                found.setdefault(_last(call.func), []).append((site, call))
        return found

    def calls_named(self, name: str) -> list[tuple[Site, ast.Call]]:
        """The calls of what has this last name."""
        return self._calls_by_name.get(name, [])

    def on_every_rank(self, site: Site, node: ast.AST) -> bool:
        """Whether nothing hints that some ranks do not come to a place, nor to the calls that lead there."""
        if site.under_rank(node):
            return False
        function = site.function(node)
        return function is None or (function in self.reached and function not in self._entered_by_some)

    @cached_property
    def _entered_by_some(self) -> set[FunctionNode]:
        """The functions that some ranks may not enter: called under a test of the rank, or never by name."""
        callers: dict[FunctionNode, list[tuple[Site, ast.Call]]] = {}
        for function in self.reached:
            calls = self.calls_named(self._classes.get(function, function.name))
            inside = [(site, call, site.function(call)) for site, call in calls]
            callers[function] = [
                (site, call) for site, call, outer in inside if outer is None or outer in self.reached
            ]
        some = {
            function
            for function, calls in callers.items()
            if not calls or any(site.under_rank(call) for site, call in calls)
        }
        grown = True
        while grown:
            more = {
                function
                for function, calls in callers.items()
                if function not in some and any(site.function(call) in some for site, call in calls)
            }
            some |= more
            grown = bool(more)
        return some

    @cached_property
    def _classes(self) -> dict[FunctionNode, str]:
        """The names by which each __init__ is called."""
        return {
            node: name for name, found in self.functions.items() for _, node in found if name != node.name
        }

    def reaches(self, site: Site, node: ast.AST) -> bool:
        """Whether a node is in no function, or in one that is reached."""
        function = site.function(node)
        return function is None or function in self.reached

    def called(self, of: type | UnionType = ast.Expr) -> Iterator[tuple[Site, ast.Call, ast.stmt]]:
        """Every call that is the whole value of such a statement."""
        for site in self.sites:
            for call in site.calls:
                statement = site.parents.get(call)
                if isinstance(statement, of):
                    yield site, call, statement

    def is_collective(self, site: Site, call: ast.Call) -> bool:
        """Whether a call is surely a collective of all ranks."""
        if any(each.arg in ("group", "async_op", None) for each in call.keywords):
            return False
        if site.dotted(call.func) in COLLECTIVES:
            return True
        function = call.func
        return (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and (function.value.id, function.attr) in METHODS
        )

    def collectives(self) -> Iterator[tuple[Site, ast.Expr, ast.Call]]:
        """The statements of a collective that every rank comes to."""
        for site, call, statement in self.called():
            if self.is_collective(site, call) and self.on_every_rank(site, call):
                yield site, statement, call

    def surely_runs_collective(self, name: str, depth: int = 0) -> bool:
        """Whether the one function of a name runs a collective in whichever way it is gone through."""
        found = self.functions.get(name, [])
        if len(found) != 1 or depth > 2:
            return False
        site, function = found[0]
        for statement in function.body:
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr | ast.Assign) and isinstance(value, ast.Call):
                if self.is_collective(site, value) and not site.under_rank(value):
                    return True
                if isinstance(value.func, ast.Name) and self.surely_runs_collective(value.func.id, depth + 1):
                    return True
            if any(isinstance(part, ast.Return | ast.Raise) for part in ast.walk(statement)) and not (
                isinstance(statement, ast.If) and _DISTRIBUTED_ONLY.search(site.source(statement.test))
            ):
                return False
        return False

    def training_loops(self) -> Iterator[tuple[Site, ast.For, ast.Expr]]:
        """The innermost loops with a `backward()` as a statement that every rank comes to, and that."""
        if not WRAPPERS.search(self.text):
            return
        for site, call, statement in self.called():
            if not is_method(call, "backward"):
                continue
            around = list(site.around(statement))
            if not self.on_every_rank(site, call) or any(
                isinstance(each, ast.With) and "join" in site.source(each.items[0].context_expr).lower()
                for each in around
            ):
                continue  # `with Join([model]):` lets the ranks have different numbers of batches.
            holder = next((each for each in around if isinstance(each, _HOLDERS)), None)
            if isinstance(holder, ast.For):
                yield site, holder, statement


_HOLDERS = FunctionNode | ast.ClassDef | ast.For


def is_method(call: ast.Call, name: str) -> bool:
    """Whether a call is of something's method with this name."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == name


def _is_main_guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(statement.test)
    )


def _names(node: ast.AST) -> Iterator[str]:
    """What the code of a function or module speaks of, without that of the functions in it."""
    pending = list(ast.iter_child_nodes(node))
    while pending:
        part = pending.pop()
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr
        if isinstance(part, FunctionNode):
            pending.extend(part.decorator_list)
        else:
            pending.extend(ast.iter_child_nodes(part))


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


Places = Iterator[tuple[Site, str | None, Iterable[int]]]
"""Files with a defect: what is written there, None where it cannot be, and the lines at which it is found."""

KINDS: list[Callable[[Whole], Iterator[Mutant]]] = []
"""Each kind of defect, as what makes its mutants of a program."""


def kind(
    name: str, *codes: str
) -> Callable[[Callable[[Whole], Places]], Callable[[Whole], Iterator[Mutant]]]:
    """Add a kind of defects, which any of the codes may find, to KINDS."""

    def of(places: Callable[[Whole], Places]) -> Callable[[Whole], Iterator[Mutant]]:
        @wraps(places)
        def mutants(whole: Whole) -> Iterator[Mutant]:
            for site, text, lines in places(whole):
                if text is not None:
                    yield Mutant(name, site.path, text, frozenset(lines), frozenset(codes))

        KINDS.append(mutants)
        return mutants

    return of


def moved(lines: range, by: int) -> range:
    """Lines, so many further down."""
    return range(lines.start + by, lines.stop + by)
