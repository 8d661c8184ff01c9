"""Gradients of several micro-batches: sent at each of them, stepped with before they are reduced, or gathered
over other micro-batches on each rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of
from launcher.program.index import ancestors, ancestors_in_function, file_of, last_name, scope_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.model_averaging import averages_models
from launcher.program.ranks.participants import conditions_of, entered_under
from launcher.program.ranks.training_loops import (
    Loop,
    calls_beside,
    calls_in,
    makes_ranks_agree,
    runs_wrapped_model,
    steps_optimizer,
)
from launcher.program.values import DDP, FSDP, Constant, Instance
from launcher.rules.script.data.skipped_batches import names_of_batch
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.steps.clearings import counted_conditions, gathers_micro_batches

_HOLDS_BACK = re.compile(
    r"no_(\w+_)?sync|(backward|gradient)_(grad_)?sync|sync_gradients|comm_hook|delay_all_?reduce"
)
"""In the names by which a program says at which micro-batches gradients are sent."""

_BACKWARD = ("backward", "manual_backward")


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def micro_batches_are_gathered_together(program: Program) -> Iterator[Finding]:
    """An accumulation over several micro-batches that costs time, or goes another way on each rank.

    Each micro-batch sends all gradients, with DDP itself, with Accelerate and Fabric, and in Lightning's
    manual optimization: the result is the same, and the time is lost (informational). Silent where any name
    hints at a way to hold them back, and with FSDP, which would keep whole gradients then.

    Or a step behind the loop uses what is left over of a window that ran under `no_sync()`: each rank steps
    with its own gradients. Silent where the window may end at the last batch, too. Or a window ends by what
    this rank has seen in its own batches: it waits for the gradients of ranks that still gather theirs.

    Bad: `(loss / 4).backward()` at each round, and `if step % 4 == 0: optimizer.step()`. Good: all but the
    last of a window, and of the loop, under `with model.no_sync():`. Source: torch's notes on DDP.
    """
    yield from _sent_each_time(program)
    yield from _left_over(program)
    yield from _ended_alone(program)


def _sent_each_time(program: Program) -> Iterator[Finding]:
    """Micro-batches of which each sends all gradients of a DDP model."""
    if may_hold_gradients_back(program):
        return
    for file in program.files:
        for step in file.calls_of.get("step", ()):
            rare = counted_conditions(program, step)
            sends = [each for each in calls_beside(step) if _sends_each_time(program, each)] if rare else []
            sends = [each for each in sends if not rare & conditions_of(program, each)]
            if sends and gathers_micro_batches(program, step, rare) is Severity.ERROR:
                yield gradients_sent_each_time(sends[0], step)
                break


def gradients_sent_each_time(backward: ast.Call, step: ast.Call) -> Finding:
    """A backward pass that sends all gradients, of which several come to one step."""
    return finding_at(
        ddp.ACCUMULATION_OR_CLIPPING_WRONG,
        backward,
        "every micro-batch sends all gradients here, though the optimizer steps once in several: "
        "the time for all reductions but the last is lost",
        severity=Severity.INFO,
        remedy="Run forward and backward of all micro-batches but the last under the model's "
        "`no_sync()` (`accumulate()` of Accelerate, `no_backward_sync` of Fabric).",
        related=[related_at(step, "the step")],
    )


def may_hold_gradients_back(program: Program) -> bool:
    """Whether a program names a way to send gradients once for several micro-batches, or shards its model."""
    if any(True for _ in program.calls(FSDP)) or program.mentioning("fully_shard"):
        return True
    return any(
        "accumulate" in file.calls_of
        or any(map(_HOLDS_BACK.search, (*file.calls_of, *file.attributes, *file.set_attributes)))
        for file in program.files
    )


def _sends_each_time(program: Program, backward: ast.Call) -> bool:
    """Whether a backward pass reduces the gradients of a replicated model, whatever else it is part of."""
    if last_name(backward.func) not in _BACKWARD:
        return False
    name = program.qualified(backward.func) or ""
    if name in ("accelerate.Accelerator.backward", "lightning.fabric.Fabric.backward"):
        return not any(_is_given_a_plugin(call) for call, _ in program.calls(name.rpartition(".")[0]))
    if last_name(backward.func) == "manual_backward":
        trainers = [
            argument_of(call, "strategy", 1) for call, _ in program.calls("lightning.pytorch.Trainer")
        ]
        return bool(trainers) and all(each is not None and _replicates(program, each) for each in trainers)
    loop = next((each for each in ancestors_in_function(backward) if isinstance(each, Loop)), None)
    block = loop or scope_of(backward).node
    return any(True for _ in program.calls(DDP)) and runs_wrapped_model(program, block)


def _is_given_a_plugin(made: ast.Call) -> bool:
    """Whether a library may be told to shard, or to let another one send the gradients."""
    return any(each.arg is None or "plugin" in each.arg or each.arg == "strategy" for each in made.keywords)


def _replicates(program: Program, strategy: ast.expr) -> bool:
    """Whether a strategy of Lightning wraps the model with DDP."""
    value = program.value(strategy)
    if isinstance(value, Constant):
        return isinstance(value.value, str) and value.value.startswith("ddp")
    return isinstance(value, Instance) and value.name.endswith(".DDPStrategy")


def _left_over(program: Program) -> Iterator[Finding]:
    """Steps behind the loop of the micro-batches, with those that are left over and ran under `no_sync()`."""
    for file in program.files:
        for call in file.calls_of.get("no_sync", ()):
            if averages_models(program):
                return
            for place, under in entered_under(program, call):
                loop = next((each for each in ancestors_in_function(place) if isinstance(each, Loop)), None)
                counted = [text for text, holds in under if "%" in text and holds is not ("==" in text)]
                if loop is None or not counted or any(map(_may_ask_for_the_last, counted)):
                    continue
                behind = [each for each in calls_beside(place) if each.lineno > (loop.end_lineno or 0)]
                sending = [each.lineno for each in behind if last_name(each.func) in _BACKWARD]
                step = next((each for each in behind if steps_optimizer(program, each)), None)
                if step is None or any(line < step.lineno for line in sending):
                    continue
                yield finding_at(
                    ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                    step,
                    "the micro-batches that are left over here ran under no_sync(): the optimizer steps with "
                    "gradients that no other rank has seen, and the models of the ranks drift apart",
                    remedy="Leave no_sync() out for the last batch of the loop as well, and step there.",
                    related=[related_at(call, "gradients stay on their rank")],
                )


def _may_ask_for_the_last(test: str) -> bool:
    """Whether a test of a window, as written, may be true of the last batch whatever its number is."""
    return any(word in test for word in ("len(", "last", "total", "final", "end", "num_batches", " or "))


def _ended_alone(program: Program) -> Iterator[Finding]:
    """Windows that end when this rank has seen enough, by what is in its own batches."""
    for file in program.files:
        for call in file.calls_of.get("no_sync", ()):
            for place, under in entered_under(program, call):
                loop = next(
                    (each for each in ancestors_in_function(place) if isinstance(each, ast.For)), None
                )
                within = [] if loop is None else calls_in(loop)
                agreeing = (each for each in within if last_name(each.func) != "no_sync")
                if loop is None or any(map(makes_ranks_agree, agreeing)):
                    continue
                names = {part.id for text, _ in under for part in _names_in(text)}
                counting = next(
                    (each for each in _counted_alone(program, loop) if _target(each) in names), None
                )
                if counting is not None:
                    yield finding_at(
                        ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                        call,
                        "each rank ends its accumulation when its own batches held enough: one sends its "
                        "gradients and waits for the others, which still gather theirs",
                        remedy="End it after a number of micro-batches, or let the ranks agree: "
                        "`dist.all_reduce` what is counted.",
                        related=[related_at(counting, "counted on this rank's own batches")],
                    )


def _names_in(text: str) -> Iterator[ast.Name]:
    yield from (each for each in walk(ast.parse(text, mode="eval")) if isinstance(each, ast.Name))


def _target(counting: ast.AugAssign) -> str | None:
    return last_name(counting.target)


def _counted_alone(program: Program, loop: ast.For) -> Iterator[ast.AugAssign]:
    """Where a loop over batches adds up what is in them, and not how many they are."""
    own = names_of_batch(program, loop)
    for node in walk(loop):
        if not isinstance(node, ast.AugAssign) or loop not in ancestors(node):
            continue
        value: ast.expr = node.value
        while isinstance(value, ast.Call) and last_name(value.func) in _SUMS:
            inner = value.args[0] if value.args and isinstance(value.func, ast.Name) else None
            value = inner or (value.func.value if isinstance(value.func, ast.Attribute) else value.func)
        summed = value is not node.value
        if isinstance(value, ast.Compare | ast.Subscript) and summed:
            value = value.left if isinstance(value, ast.Compare) else value.value
        if isinstance(value, ast.Name) and value.id in own and file_of(node) is file_of(loop):
            yield node


_SUMS = ("int", "float", "item", "sum", "count_nonzero", "numel")
"""What makes a number of the tokens of a batch, by what they are or by how long they are padded."""


ACCUMULATION_RULES = (micro_batches_are_gathered_together,)
