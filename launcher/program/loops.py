"""The loops in which a program trains: over what, with which model, and which library owns the loaders.

An owner is the library that an object went through: `accelerator.prepare(loader)` gives the loader a
sampler of its own and sets its epoch, so that what would be a mistake of the script is none. Ownership is
of objects: a loader that did not go through it is still the script's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from functools import cached_property

from launcher.program.dataflow import all_arguments, argument_of, calls_that_may_make
from launcher.program.index import (
    BindingKind,
    FunctionNode,
    ancestors,
    class_of,
    file_of,
    last_name,
    scope_of,
)
from launcher.program.program import Program
from launcher.program.values import (
    DDP,
    FSDP,
    FULLY_SHARD,
    LIBRARY_TABLES,
    Defined,
    External,
    Instance,
    alternatives,
)

LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"
"""The one dotted names of what a training is made of."""


class LoaderOwner(Enum):
    """Who shards a loader, sets its epoch, and moves its batches."""

    SCRIPT = "the script"
    ACCELERATE = "Accelerate"
    FABRIC = "Fabric"
    LIGHTNING = "Lightning"
    TRANSFORMERS = "the Hugging Face Trainer"
    DEEPSPEED = "DeepSpeed"


_OWNER_BY_CALL = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_call"].items()}
"""The calls by which a library takes the objects that are its arguments."""

_OWNER_BY_CLASS = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_class"].items()}
"""The classes whose own methods make objects for a library."""


class LoaderOwners:
    """Which library owns the objects of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    def owner_of(self, call: ast.Call) -> LoaderOwner:
        """Who owns the object that a call makes: by what it is handed to, or by the class that makes it."""
        return self._taken.get(call) or self._of_class(call) or LoaderOwner.SCRIPT

    @cached_property
    def _taken(self) -> dict[ast.Call, LoaderOwner]:
        found: dict[ast.Call, LoaderOwner] = {}
        for call, name in self.program.calls(*_OWNER_BY_CALL):
            for argument in _flatten_lists(all_arguments(call)):
                for value in alternatives(self.program.value(argument)):
                    if isinstance(value, Instance):
                        found.setdefault(value.call, _OWNER_BY_CALL[name])
        return found

    def _of_class(self, call: ast.Call) -> LoaderOwner | None:
        scope = scope_of(call).function
        definition = None if scope is None else class_of(scope.node)
        return None if definition is None else self._inherits(definition, 0)

    def _inherits(self, definition: ast.ClassDef, depth: int) -> LoaderOwner | None:
        for base in definition.bases:
            value = self.program.value(base)
            if isinstance(value, External) and value.name in _OWNER_BY_CLASS:
                return _OWNER_BY_CLASS[value.name]
            if isinstance(value, Defined) and isinstance(value.node, ast.ClassDef) and depth < 10:
                above = self._inherits(value.node, depth + 1)
                if above is not None:
                    return above
        return None


def _flatten_lists(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    """The expressions, and those within written lists of them."""
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List):
            yield from _flatten_lists(node.elts)
        else:
            yield node


# Where a program trains a wrapped model: loops and functions in which every rank must run the same.


Loop = ast.For | ast.AsyncFor | ast.While

_ASSIGNMENTS_TO_CALL = 3
"""So many assignments lead at most from a loss to the call that is given the model."""

_SHARING_WORDS = (
    "reduce",
    "gather",
    "broadcast",
    "agree",
    "sync",
    "vote",
    "consensus",
    "any_rank",
    "all_ranks",
)
"""In the names of what makes ranks see the same."""

_NOT_SHARING_WORDS = ("batchnorm", "batch_norm", "synchronize", "reducelr")
"""In the names of what only sounds so: converting a model to SyncBatchNorm, waiting for the device."""


def wrapped_training_loops(program: Program) -> Iterator[Loop]:
    """The innermost loops that run a wrapped model forward and backward."""
    seen: set[ast.AST] = set()
    for file in program.files:
        for backward in file.calls_of.get("backward", ()):
            loop = next((each for each in ancestors_in_function(backward) if isinstance(each, Loop)), None)
            if loop is not None and loop not in seen:
                seen.add(loop)
                if runs_wrapped_model(program, loop):
                    yield loop


def ancestors_in_function(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node within its function."""
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        yield outer


def calls_in(block: ast.AST) -> list[ast.Call]:
    """The calls in a statement or in a function, without those in functions within it."""
    known = file_of(block).calls_within
    if block in known:
        return known[block]
    found = known[block] = []
    pending = [block]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        if node is block or not isinstance(node, FunctionNode | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return found


def runs_wrapped_model(program: Program, block: ast.AST) -> bool:
    """Whether a block calls a model that DDP or FSDP wraps, and backward, with nothing like Join around."""
    calls = calls_in(block)
    if not any(last_name(each.func) == "backward" for each in calls):
        return False
    around = [each for each in ancestors_in_function(block) if isinstance(each, ast.With)]
    if any("join" in ast.unparse(item.context_expr).lower() for each in around for item in each.items):
        return False
    if any(program.qualified(each.func) in LIBRARY_TABLES["backward_calls"] for each in calls):
        return True
    return any(is_forward(program, each) for each in calls) or any(
        _is_wrapped(program, given)
        for each in _making_the_loss(program, calls)
        for given in all_arguments(each)
    )


def _making_the_loss(program: Program, calls: list[ast.Call]) -> Iterator[ast.Call]:
    """The calls whose results backward starts from, through the variables that hold them."""
    waiting = [(call.func, 0) for call in calls if last_name(call.func) == "backward"]
    seen: set[ast.AST] = set()
    while waiting:
        node, depth = waiting.pop()
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and part in calls:
                yield part
            elif isinstance(part, ast.Name) and depth < _ASSIGNMENTS_TO_CALL:
                for binding in program.evaluation.sources(part):
                    if binding.kind is BindingKind.ASSIGNED and binding.node not in seen and binding.value:
                        seen.add(binding.node)
                        waiting.append((binding.value, depth + 1))


def is_forward(program: Program, call: ast.Call) -> bool:
    """Whether a call is the forward pass of a model that DDP or FSDP may wrap over all ranks."""
    model = call.func
    if isinstance(model, ast.Attribute) and model.attr == "forward":
        model = model.value
    return _is_wrapped(program, model)


def _is_wrapped(program: Program, model: ast.expr) -> bool:
    """Whether an expression is a model that DDP or FSDP may wrap over all ranks."""
    if not isinstance(model, ast.Name | ast.Attribute):
        return False
    wrappers = calls_that_may_make(program, model, DDP, FSDP) or _sharded_in_place(program, model)
    groups = ("process_group", "device_mesh", "mesh")
    return bool(wrappers) and not any(argument_of(each, name) for each in wrappers for name in groups)


def _sharded_in_place(program: Program, model: ast.expr) -> list[ast.Call]:
    """The calls of `fully_shard`, which changes the model that it is given, on a variable of this name."""
    if not isinstance(model, ast.Name):
        return []
    holder = scope_of(model).holder_of(model.id)
    return [
        call
        for call, _ in program.calls(FULLY_SHARD)
        if call.args
        and isinstance(given := call.args[0], ast.Name)
        and given.id == model.id
        and holder is not None
        and scope_of(given).holder_of(given.id) is holder
    ]


def trains_within(program: Program, block: ast.AST, deeper: int = 2) -> bool:
    """Whether a block, or a function that it calls, runs a wrapped model forward and backward."""
    if runs_wrapped_model(program, block):
        return True
    for call in calls_in(block) if deeper else ():
        called = program.value(call.func)
        node = called.node if isinstance(called, Defined) else None
        if isinstance(node, ast.FunctionDef) and trains_within(program, node, deeper - 1):
            return True
    return False


def makes_ranks_agree(call: ast.Call) -> bool:
    """Whether a call, by its name, makes the ranks see the same value."""
    name = ast.unparse(call.func).lower()
    return any(word in name for word in _SHARING_WORDS) and not any(
        word in name for word in _NOT_SHARING_WORDS
    )
