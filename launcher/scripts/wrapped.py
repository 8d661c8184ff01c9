"""Where a program trains a wrapped model: loops and functions in which every rank must run the same."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument
from launcher.scripts.distributed import DDP, FSDP, FULLY_SHARD
from launcher.scripts.origins import may_be
from launcher.scripts.scopes import BindingKind, FunctionNode, ancestors, last_name, scope_of
from launcher.scripts.values import Defined

if TYPE_CHECKING:
    from launcher.scripts.program import Program

Loop = ast.For | ast.AsyncFor | ast.While

_CALLS = "calls_in"
"""Where a block keeps the calls in it: like its parent, the same in every program."""

_STEPS_TO_THE_MODEL = 3
"""So many assignments lead at most from a loss to the call that is given the model."""

_SHARED = ("reduce", "gather", "broadcast", "agree", "sync", "vote", "consensus", "any_rank", "all_ranks")
"""In the names of what makes ranks see the same."""

_SHARING_NOTHING = ("batchnorm", "batch_norm", "synchronize", "reducelr")
"""In the names of what only sounds so: converting a model to SyncBatchNorm, waiting for the device."""

_LIBRARIES_BACKWARDS = ("accelerate.Accelerator.backward", "lightning.fabric.Fabric.backward")
"""What calculates the gradients of a model that the library wrapped, by `prepare` or `setup`."""


def training_loops(program: Program) -> Iterator[Loop]:
    """The innermost loops that run a wrapped model forward and backward."""
    seen: set[ast.AST] = set()
    for file in program.files:
        for backward in file.calls_of.get("backward", ()):
            loop = next((each for each in within_function(backward) if isinstance(each, Loop)), None)
            if loop is not None and loop not in seen:
                seen.add(loop)
                if runs_wrapped(program, loop):
                    yield loop


def within_function(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node within its function."""
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        yield outer


def calls_in(block: ast.AST) -> list[ast.Call]:
    """The calls in a statement or in a function, without those in functions within it."""
    known: list[ast.Call] | None = block.__dict__.get(_CALLS)
    if known is not None:
        return known
    found: list[ast.Call] = []
    block.__dict__[_CALLS] = found
    pending = [block]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            found.append(node)
        if node is block or not isinstance(node, FunctionNode | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))
    return found


def runs_wrapped(program: Program, block: ast.AST) -> bool:
    """Whether a block calls a model that DDP or FSDP wraps, and backward, with nothing like Join around."""
    calls = calls_in(block)
    if not any(last_name(each.func) == "backward" for each in calls):
        return False
    around = [each for each in within_function(block) if isinstance(each, ast.With)]
    if any("join" in ast.unparse(item.context_expr).lower() for each in around for item in each.items):
        return False
    if any(program.qualified(each.func) in _LIBRARIES_BACKWARDS for each in calls):
        return True
    return any(is_forward(program, each) for each in calls) or any(
        _is_wrapped(program, given)
        for each in _making_the_loss(program, calls)
        for given in (*each.args, *(keyword.value for keyword in each.keywords))
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
            elif isinstance(part, ast.Name) and depth < _STEPS_TO_THE_MODEL:
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
    wrappers = may_be(program, model, DDP, FSDP) or _sharded_in_place(program, model)
    groups = ("process_group", "device_mesh", "mesh")
    return bool(wrappers) and not any(argument(each, name) for each in wrappers for name in groups)


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


def trains(program: Program, block: ast.AST, deeper: int = 2) -> bool:
    """Whether a block, or a function that it calls, runs a wrapped model forward and backward."""
    if runs_wrapped(program, block):
        return True
    for call in calls_in(block) if deeper else ():
        called = program.value(call.func)
        node = called.node if isinstance(called, Defined) else None
        if isinstance(node, ast.FunctionDef) and trains(program, node, deeper - 1):
            return True
    return False


def makes_ranks_agree(call: ast.Call) -> bool:
    """Whether a call, by its name, makes the ranks see the same value."""
    name = ast.unparse(call.func).lower()
    return any(word in name for word in _SHARED) and not any(word in name for word in _SHARING_NOTHING)
