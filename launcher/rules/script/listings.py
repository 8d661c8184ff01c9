"""Whether the order of files is the same on all hosts where the data depends on it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import data
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.cuts import is_cut_by_rank
from launcher.rules.script.finding import found, note
from launcher.rules.script.loaders import loaders_of
from launcher.scripts.arguments import argument
from launcher.scripts.callers import bound_arguments
from launcher.scripts.edits import wrapped
from launcher.scripts.launching import is_for_one_host
from launcher.scripts.program import Program
from launcher.scripts.scopes import (
    ancestors,
    class_of,
    file_of,
    last_name,
    parent_of,
    scope_of,
)
from launcher.scripts.values import Defined, External, Made, alternatives

LISTINGS = (
    "os.listdir",
    "os.scandir",
    "os.walk",
    "glob.glob",
    "glob.iglob",
    "pathlib.Path.iterdir",
    "pathlib.Path.glob",
    "pathlib.Path.rglob",
)
"""What answers in the order of the file system."""

_KEEPING = frozenset({"list", "tuple", "iter", "filter", "map", "enumerate", "set", "frozenset"})
"""What keeps the order of its argument, or gives it that of a set, which differs between processes."""

_DEEPEST = 4
"""So many times is a list followed from one variable to the next."""


@finds(Stage.SCRIPT, data.FILES_UNSORTED)
def listings_are_sorted(program: Program) -> Iterator[Finding]:
    """A listing of files in the order of the file system, whose order decides which rank reads what.

    Two hosts may list one folder in different orders. Found where the list is cut by rank, or where a Dataset
    keeps it and reads it by index while a DistributedSampler gives each rank its indices: ranks of different
    hosts then read some files twice, and others never. Listing to count, to delete, to look for a file or for
    the newest checkpoint is fine, and so is what is sorted before it is used. Informational where it is not
    known that a sampler cuts just this Dataset: another may be the one that it cuts; and where the program
    spawns its processes itself, as one host lists a folder for all of them alike.

    Bad: `files = glob.glob(pattern)[rank::world_size]`
    Good: `files = sorted(glob.glob(pattern))[rank::world_size]`

    Source: Python documentation of os.listdir and glob.
    """
    distributed = None
    severity = Severity.INFO if is_for_one_host(program) else None
    for call, name in program.calls(*LISTINGS):
        if name == "os.walk" and _is_sorted_within(call):
            continue
        for end in _ends(program, call):
            if is_cut_by_rank(program, end):
                related = [] if end is call else [note(end, "cut by rank here")]
                yield found(
                    data.FILES_UNSORTED,
                    call,
                    f"{_short(name)} answers in the order of the file system, and the ranks cut the list as "
                    "if it were the same on every host: files are read twice, and others never",
                    related=related,
                    severity=severity,
                    fix=_sorted(call, name),
                )
                break
            kept = _kept_by_dataset(program, end)
            if kept is not None:
                if distributed is None:
                    distributed = _splits_by_index(program)
                if distributed:
                    yield found(
                        data.FILES_UNSORTED,
                        call,
                        f"{_short(name)} answers in the order of the file system, and an index of a sampler "
                        "means another file on another host: files are read twice, and others never",
                        related=[note(kept, "read by index here")],
                        severity=severity if _is_sampled(program, kept) else Severity.INFO,
                        fix=_sorted(call, name),
                    )
                    break


def _short(name: str) -> str:
    return ".".join(name.rsplit(".", 2)[-2:])


def _sorted(listing: ast.Call, name: str) -> Fix | None:
    """`sorted(...)` around a listing.

    Not of scandir, whose entries have no order, nor of walk, whose folders have one of their own, nor where a
    set may bring it out of order again.
    """
    if name in ("os.scandir", "os.walk") or {"set", "frozenset"} & set(file_of(listing).calls_of):
        return None
    return Fix(True, wrapped(listing, "sorted(", ")"))


def _is_sorted_within(walk: ast.Call) -> bool:
    """Whether the loop over `os.walk` sorts anything: `dirs.sort()`, `for name in sorted(names)`."""
    loop = parent_of(walk)
    if not isinstance(loop, ast.For):
        return True  # What becomes of the triples is not followed.
    return any(
        isinstance(node, ast.Call) and last_name(node.func) in ("sort", "sorted", "natsorted")
        for node in ast.walk(loop)
    )


def _splits_by_index(program: Program) -> bool:
    """Whether ranks get indices of one dataset: by a sampler of the script, or of a library that wraps it."""
    loaders = loaders_of(program)
    return bool(loaders.samplers) or any(True for _ in program.calls("accelerate.Accelerator.prepare"))


def _is_sampled(program: Program, kept: ast.Subscript) -> bool:
    """Whether a DistributedSampler is made of an object of the Dataset that reads here."""
    owner = _class_around(kept)
    for sampler in loaders_of(program).samplers:
        given = argument(sampler, "dataset", 0)
        made = alternatives(program.value(given)) if given is not None else ()
        if any(isinstance(each, Made) and each.definition is owner for each in made):
            return True
    return False


def _ends(program: Program, call: ast.Call) -> Iterator[ast.expr]:
    """The listing, and every place to which its list is handed on, unless it is sorted on the way."""
    waiting: list[tuple[ast.expr, int]] = [(call, 0)]
    seen = set[ast.AST]()
    while waiting:
        node, depth = waiting.pop(0)
        value = _outermost(program, node)
        if value is None or value in seen:
            continue
        seen.add(value)
        yield value
        if depth < _DEEPEST:
            for uses in _handed_on(program, value):
                if not any(_sorts(each) for each in uses):
                    waiting += [(each, depth + 1) for each in uses]


def _handed_on(program: Program, value: ast.expr) -> Iterator[list[ast.expr]]:
    """The uses of each variable, attribute and parameter that gets a list."""
    parent = parent_of(value)
    if isinstance(parent, ast.Assign):
        for target in parent.targets:
            yield [each for each in _uses(target, parent) if _is_given(program, each, value)]
    elif isinstance(parent, ast.AugAssign) and parent.value is value:
        yield list(_uses(parent.target, parent))
    elif isinstance(parent, ast.For) and parent.iter is value:
        for node in ast.walk(parent):
            if isinstance(node, ast.Call) and last_name(node.func) in ("append", "extend"):
                assert isinstance(node.func, ast.Attribute | ast.Name)
                if isinstance(node.func, ast.Attribute):
                    yield list(_uses(node.func.value, parent))
    elif isinstance(parent, ast.Call | ast.keyword):
        yield from _as_parameter(program, value, parent)


def _is_given(program: Program, use: ast.expr, value: ast.expr) -> bool:
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
        bound = True
        function = next(
            (each for each in function.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"),
            None,
        )
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return
    arguments = bound_arguments(function, call, bound) or {}
    name = next((name for name, given in arguments.items() if given is value), None)
    if name is not None:
        scope = file_of(function).scopes[function]
        yield [
            each for each in file_of(function).names.get(name, ()) if scope_of(each).holder_of(name) is scope
        ]


def _uses(target: ast.expr, statement: ast.stmt) -> Iterator[ast.expr]:
    """Where a variable, or an attribute of the method's object, is read."""
    file = file_of(statement)
    if isinstance(target, ast.Name):
        holder = scope_of(statement).holder_of(target.id)
        for name in file.names.get(target.id, ()):
            if scope_of(name).holder_of(target.id) is holder:
                yield name
    elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
        owner = _class_around(statement)
        for attribute in file.attributes.get(target.attr, ()):
            if owner is not None and _class_around(attribute) is owner:
                yield attribute


def _class_around(node: ast.AST) -> ast.ClassDef | None:
    function = scope_of(node).function
    return None if function is None else class_of(function.node)


def _outermost(program: Program, node: ast.expr) -> ast.expr | None:
    """An expression with all around it that keeps its order: `list(...)`, a comprehension; None if sorted."""
    while True:
        parent = parent_of(node)
        if isinstance(parent, ast.Call) and node in parent.args:
            called = program.value(parent.func)
            if isinstance(called, External) and called.name in ("sorted", "natsort.natsorted", "len"):
                return None
            if not isinstance(called, External) or called.name not in _KEEPING:
                return node
            node = parent
        elif isinstance(parent, ast.comprehension) and parent.iter is node:
            outer = parent_of(parent)
            if not isinstance(outer, ast.ListComp | ast.GeneratorExp) or len(outer.generators) != 1:
                return None
            node = outer
        else:
            return node


def _sorts(use: ast.expr) -> bool:
    """Whether a list is sorted, or replaced by a sorted one, where it is read here."""
    for outer in ancestors(use):
        if isinstance(outer, ast.Call):
            if last_name(outer.func) in ("sort", "sorted", "natsorted", "min", "max", "argsort"):
                return True
        elif isinstance(outer, ast.stmt):
            return False
    return False


def _kept_by_dataset(program: Program, node: ast.expr) -> ast.Subscript | None:
    """Where a map-style Dataset reads by its index what a method of it sets: `self.files[index]`."""
    statement = parent_of(node)
    if isinstance(statement, ast.Subscript) and statement.value is node:
        owner = _class_around(node)
        return _by_index(program, statement, owner) if isinstance(node, ast.Attribute) else None
    return None


def _by_index(program: Program, read: ast.Subscript, owner: ast.ClassDef | None) -> ast.Subscript | None:
    """A subscript of `__getitem__` by its index, in a Dataset of torch."""
    function = scope_of(read).function
    if function is None or owner is None or not _is_dataset(program, owner):
        return None
    node = function.node
    if not isinstance(node, ast.FunctionDef) or node.name != "__getitem__" or len(node.args.args) != 2:
        return None
    index = node.args.args[1].arg
    return read if isinstance(read.slice, ast.Name) and read.slice.id == index else None


def _is_dataset(program: Program, definition: ast.ClassDef) -> bool:
    for base in definition.bases:
        for each in alternatives(program.value(base)):
            if isinstance(each, External) and each.name == "torch.utils.data.Dataset":
                return True
            if (
                isinstance(each, Defined)
                and isinstance(each.node, ast.ClassDef)
                and each.node is not definition
            ):
                return _is_dataset(program, each.node)
    return False
