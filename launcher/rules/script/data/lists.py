"""Where a list goes without losing its order: to other variables, attributes, parameters and results."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.program.dataflow import origins
from launcher.program.index import ancestors, class_of, file_of, is_property, last_name, parent_of, scope_of
from launcher.program.objects.bound_arguments import bind_arguments
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.training_loops import makes_ranks_agree
from launcher.program.ranks.truths import Guard
from launcher.program.values import PROGRESS_BARS, Defined, External, Made, alternatives
from launcher.rules.script.data.shards import is_cut_by_rank

_KEEPING = frozenset(
    {
        "list",
        "tuple",
        "iter",
        "filter",
        "map",
        "zip",
        "enumerate",
        "reversed",
        "dict.fromkeys",
        *PROGRESS_BARS,
        "set",
        "frozenset",
        "numpy.array",
        "numpy.asarray",
        "numpy.concatenate",
        "pandas.concat",
        "torch.cat",
        "torch.stack",
        "torch.tensor",
        "torch.from_numpy",
        "numpy.stack",
        "numpy.vstack",
        "torch.utils.data.ConcatDataset",
    }
)
"""What keeps the order of its argument, or gives it that of a set, which differs between processes."""

_COPYING = frozenset(
    {
        *("tolist", "to_list", "numpy", "to_numpy", "copy", "clone", "intersection", "union", "difference"),
        *("splitlines", "split", "decode", "strip", "rstrip", "read", "readlines"),
    }
)
"""Methods that give the same elements in the same order, or another set; of a text those of its lines."""

_HELD_BY = frozenset({"stdout", "values"})
"""Attributes that hold what their object has been made of: what a command printed, the column of a table."""

_JOINING = (ast.Add, ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
"""What makes one list of two, or one set."""

_DEEPEST_LIST = 6
"""So many times is a list followed from one variable to the next."""


def follow_list(program: Program, node: ast.expr) -> Iterator[ast.expr]:
    """A list, and every place to which it is handed on, unless it is sorted on the way."""
    waiting: list[tuple[ast.expr, int]] = [(node, 0)]
    seen = set[ast.AST]()
    while waiting:
        node, depth = waiting.pop(0)
        value = _outermost(program, node)
        if value is None or value in seen:
            continue
        seen.add(value)
        yield value
        if depth < _DEEPEST_LIST:
            for uses in _handed_on(program, value):
                if not any(_sorts(program, each) for each in uses):
                    waiting += [(each, depth + 1) for each in uses]


def _handed_on(program: Program, value: ast.expr) -> Iterator[list[ast.expr]]:
    """The uses of each variable, attribute, parameter and result that gets a list."""
    parent = parent_of(value)
    if isinstance(parent, ast.Assign | ast.NamedExpr):
        for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
            yield [each for each in uses_of_target(program, target) if _is_given_to(program, each, value)]
    elif isinstance(parent, ast.AugAssign | ast.AnnAssign) and parent.value is value:
        yield list(uses_of_target(program, parent.target))
    elif isinstance(parent, ast.withitem) and isinstance(parent.optional_vars, ast.Name):
        yield list(uses_of_target(program, parent.optional_vars))
    elif isinstance(parent, ast.For) and parent.iter is value:
        yield from _grown_in(program, parent)
    elif isinstance(parent, ast.Return):
        yield _uses_of_result(program, parent, None)
    elif isinstance(parent, ast.Tuple) and isinstance(outer := parent_of(parent), ast.Return):
        yield _uses_of_result(program, outer, parent.elts.index(value))
    elif isinstance(parent, ast.Call) and last_name(parent.func) == "extend" and value in parent.args:
        if isinstance(parent.func, ast.Attribute):
            yield list(uses_of_target(program, parent.func.value))
    elif isinstance(parent, ast.Call | ast.keyword):
        yield from _as_parameter(program, value, parent)


def _grown_in(program: Program, loop: ast.For) -> Iterator[list[ast.expr]]:
    """The uses of each list to which a loop adds, or which it yields."""
    for node in walk(loop):
        if isinstance(node, ast.Call) and last_name(node.func) in ("append", "extend"):
            if isinstance(node.func, ast.Attribute):
                yield list(uses_of_target(program, node.func.value))
        elif isinstance(node, ast.AugAssign) and _is_a_list(program, node.value):
            yield list(uses_of_target(program, node.target))
        elif isinstance(node, ast.Yield | ast.YieldFrom):
            yield _uses_of_result(program, node, None)


def _is_a_list(program: Program, node: ast.expr) -> bool:
    """Whether something is written as a list, here or where it is made: numbers are counted."""
    made = origins(program, node)
    return bool(made) and all(isinstance(each, ast.List | ast.ListComp) for each in made)


def _uses_of_result(program: Program, statement: ast.AST, item: int | None) -> list[ast.expr]:
    """Where what a function gives back is used: its calls, or the reads of a property; or a part of it."""
    scope = scope_of(statement).function
    function = None if scope is None else scope.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return []
    owner = class_of(function)
    if owner is not None and is_property(function):
        read = file_of(function).attributes.get(function.name, ())
        return [each for each in read if class_around(each) is owner]
    calls = [site.call for site in program.evaluation.callers.call_sites(function) or ()]
    if item is None:
        return [*calls]
    taken = [each for call in calls if isinstance(each := parent_of(call), ast.Assign)]
    targets = [target for each in taken for target in each.targets if isinstance(target, ast.Tuple)]
    parts = [each.elts[item] for each in targets if item < len(each.elts)]
    return [use for each in parts for use in uses_of_target(program, each)]


def _is_given_to(program: Program, use: ast.expr, value: ast.expr) -> bool:
    """Whether a variable has this list where it is read: not one that it got in between."""
    if not isinstance(use, ast.Name):
        return True
    bindings = program.evaluation.sources(use)
    return not bindings or any(each.value is value for each in bindings)


def _as_parameter(
    program: Program, value: ast.expr, parent: ast.Call | ast.keyword
) -> Iterator[list[ast.expr]]:
    """The uses of the parameter as which a function or class of the program gets a list."""
    call = parent_of(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call):
        return
    called = program.value(call.func)
    if not isinstance(called, Defined):
        return
    function: ast.AST | None = called.node
    bound = called.owner is not None
    if isinstance(function, ast.ClassDef):
        bound, definition = True, function
        function = next(
            (each for each in function.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
            None,
        )
        if function is None and isinstance(parent, ast.keyword) and parent.arg is not None:
            yield [
                each
                for file in program.mentioning(parent.arg)
                for each in file.attributes.get(parent.arg, ())
                if program.value(each.value) == Made(definition)
            ]
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    arguments = bind_arguments(function, call, bound) or {}
    name = next((name for name, given in arguments.items() if given is value), None)
    if name is not None:
        scope = file_of(function).scopes[function]
        yield [
            each for each in file_of(function).names.get(name, ()) if scope_of(each).holder_of(name) is scope
        ]


def uses_of_target(program: Program, target: ast.expr) -> Iterator[ast.expr]:
    """Where a variable is read, or an attribute of the method's object, also by what the class derives from
    or what derives from it."""
    file = file_of(target)
    if isinstance(target, ast.Name):
        holder = scope_of(target).holder_of(target.id)
        for name in file.names.get(target.id, ()):
            if scope_of(name).holder_of(target.id) is holder:
                yield name
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = class_around(target)
        for attribute in (each for one in program.files for each in one.attributes.get(target.attr, ())):
            reader = class_around(attribute)
            if owner is not None and reader is not None and _are_kin(program, owner, reader):
                yield attribute


def _are_kin(program: Program, one: ast.ClassDef, other: ast.ClassDef) -> bool:
    return derives_from(program, one, other) or derives_from(program, other, one)


def derives_from(program: Program, definition: ast.ClassDef, base: ast.ClassDef, deepest: int = 4) -> bool:
    """Whether a class is another one of the program, or derives from it."""
    if definition is base or not deepest:
        return definition is base
    made = (each for one in definition.bases for each in alternatives(program.value(one)))
    own = (each.node for each in made if isinstance(each, Defined))
    return any(
        isinstance(each, ast.ClassDef) and derives_from(program, each, base, deepest - 1) for each in own
    )


def class_around(node: ast.AST) -> ast.ClassDef | None:
    """The class in whose method a node stands."""
    function = scope_of(node).function
    return None if function is None else class_of(function.node)


def _outermost(program: Program, node: ast.expr) -> ast.expr | None:
    """An expression with all around it that keeps its order: `list(...)`, a comprehension; None if sorted."""
    while not is_cut_by_rank(program, node):
        parent = parent_of(node)
        around = parent_of(parent) if isinstance(parent, ast.Starred | ast.List) else None
        sliced = isinstance(parent, ast.Subscript) and isinstance(parent.slice, ast.Slice)
        if isinstance(parent, ast.Starred) and isinstance(around, ast.List | ast.Tuple):
            node = around
        elif isinstance(parent, ast.BinOp) and isinstance(parent.op, _JOINING):
            node = parent
        elif isinstance(around, ast.List | ast.Call) or (
            sliced and node is not getattr(parent, "slice", None)
        ):
            assert isinstance(parent, ast.expr)
            node = parent
        elif (
            isinstance(parent, ast.Attribute)
            and parent.attr in _COPYING
            and isinstance(outer := parent_of(parent), ast.Call)
        ):
            node = outer
        elif (
            isinstance(parent, ast.Attribute)
            and parent.attr in _HELD_BY
            and not (isinstance(outer := parent_of(parent), ast.Call) and outer.func is parent)
        ):
            node = parent
        elif isinstance(parent, ast.Call) and node in parent.args:
            called = program.value(parent.func)
            by_time = called == External("sorted") and sorts_by_time(program, parent)
            if not by_time and isinstance(called, External) and called.name in _SORTED:
                return None
            if not by_time and (not isinstance(called, External) or called.name not in _KEEPING):
                return node
            node = parent
        elif isinstance(parent, ast.comprehension) and parent.iter is node:
            outer = parent_of(parent)
            if not isinstance(outer, ast.ListComp | ast.GeneratorExp):
                return node if isinstance(outer, ast.DictComp) else None
            node = outer
        else:
            return node
    return node


_SORTED = ("sorted", "natsort.natsorted", "len")
_SORTING = ("sort", "sorted", "natsorted", "min", "max", "argsort")
_SHOWING = (*_SORTING, "list", "tuple", "reversed", "print", "len")


def _sorts(program: Program, use: ast.expr) -> bool:
    """Whether a list is sorted or made alike on all ranks, or replaced by such a one, where it is read."""
    for outer in ancestors(use):
        if isinstance(outer, ast.Call):
            if last_name(outer.func) in _SORTING and _keeps_what_it_sorts(program, outer, use):
                return not sorts_by_time(program, outer)
            if makes_ranks_agree(outer):
                return True
        elif isinstance(outer, ast.stmt):
            return False
    return False


def _keeps_what_it_sorts(program: Program, call: ast.Call, use: ast.expr) -> bool:
    """Whether anything is in order after a call that sorts, on every rank: not where `sorted(files)` stands
    as a statement, or `list(files).sort()` orders a copy that nobody has, or rank 0 alone sorts."""
    if isinstance(program.analysis(Participants).ranks_running(call), Guard):
        return False
    if isinstance(call.func, ast.Attribute) and use in walk(call.func.value):
        copied = isinstance(call.func.value, ast.Call) or isinstance(
            getattr(call.func.value, "slice", None), ast.Slice
        )
        return not (copied and call.func.attr == "sort")
    outer: ast.AST | None = call
    while isinstance(outer, ast.Call) and last_name(outer.func) in _SHOWING:
        outer = parent_of(outer)
    return not isinstance(outer, ast.Expr)


_TIMES = frozenset({"getmtime", "getctime", "getatime", "st_mtime", "st_ctime", "st_atime", "st_mtime_ns"})


def sorts_by_time(program: Program, call: ast.Call) -> bool:
    """Whether a call sorts files by when this host wrote them, first of all: `key=os.path.getmtime`."""
    key = next((each.value for each in call.keywords if each.arg == "key"), None)
    if key is None:
        return False
    for made in origins(program, key):
        value = None if made is None else program.value(made)
        tells: list[ast.AST | None] = [made]
        if isinstance(made, ast.Lambda):
            tells = [made.body]
        elif isinstance(value, Defined) and isinstance(value.node, ast.FunctionDef):
            tells = [each.value for each in file_of(value.node).returns_of.get(value.node, ())]
        first = [each.elts[0] if isinstance(each, ast.Tuple) and each.elts else each for each in tells]
        if not first or not all(each is not None and _tells_a_time(each) for each in first):
            return False
    return True


def _tells_a_time(node: ast.AST) -> bool:
    return any(isinstance(each, ast.expr) and last_name(each) in _TIMES for each in walk(node))
