"""When gradients are cleared: at each step, not between the micro-batches of one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.bindings import are_exclusive
from launcher.program.dataflow import argument_of, constant_argument
from launcher.program.index import (
    ancestors,
    ancestors_in_function,
    last_name,
    parent_of,
    scope_of,
)
from launcher.program.program import Program
from launcher.program.ranks.participants import conditions_of
from launcher.program.ranks.training_loops import (
    Loop,
    calls_beside,
    calls_in,
    clearings_with_steps,
    line_of_last_backward,
    steps_optimizer,
)
from launcher.program.surroundings.options import default_of_option
from launcher.rules.script.findings import finding_at, related_at


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def gathered_gradients_reach_their_step(program: Program) -> Iterator[Finding]:
    """A `zero_grad()` at each micro-batch of an accumulation: only the last one's gradients are stepped with.

    In Accelerate's `accumulate()` an optimizer clears and steps at the last micro-batch alone: cleared before
    backward, it loses what the others have gathered. Written by hand: a step once in so many micro-batches,
    and a `zero_grad()` at each, or one in the loop of the micro-batches behind which the step stands.
    Informational where an option's default is one micro-batch to a step.

    Bad: `with accelerator.accumulate(model): optimizer.zero_grad(); ...; accelerator.backward(loss)`. Good:
    `zero_grad()` behind `optimizer.step()`. Source: Accelerate's guide to gradient accumulation.
    """
    made = [call for call, _ in program.calls("accelerate.Accelerator")]
    severity = _severity_of_clearing(program, made[0]) if len(made) == 1 else None
    found: dict[ast.Call, Severity] = {}
    for file in program.files:
        for call in file.calls_of.get("accumulate", ()) if severity else ():
            block = parent_of(parent_of(call) or call)
            inside = [each for each in calls_beside(call) if block in [*ancestors(each)]]
            for clearing, step in clearings_with_steps(inside):
                together = conditions_of(program, clearing) <= conditions_of(program, step)
                if together and clearing.lineno < line_of_last_backward(inside) < step.lineno:
                    found[clearing] = severity or Severity.WARNING
        for step in file.calls_of.get("step", ()) if "zero_grad" in file.calls_of else ():
            rare = counted_conditions(program, step)
            gathers = (
                gathers_micro_batches(program, step, rare)
                if rare and steps_optimizer(program, step)
                else None
            )
            if gathers is not None:
                often = [each for each in calls_beside(step) if not rare & conditions_of(program, each)]
                for clearing, _ in clearings_with_steps([*often, step]):
                    if _is_at_each(program, clearing, often):
                        found[clearing] = gathers
        for clearing in file.calls_of.get("zero_grad", ()):
            if _is_in_a_loop_before_its_step(program, clearing):
                found.setdefault(clearing, Severity.ERROR)
    for clearing, severity in found.items():
        yield finding_at(
            ddp.ACCUMULATION_OR_CLIPPING_WRONG,
            clearing,
            "this throws away the gradients of the micro-batches before: the optimizer steps with those of "
            "the last one alone",
            remedy="Clear them right behind the optimizer's step.",
            severity=severity,
        )


def _is_in_a_loop_before_its_step(program: Program, clearing: ast.Call) -> bool:
    """Whether gradients are cleared in each round of a loop with backward, behind which their step stands."""
    loops = [each for each in ancestors_in_function(clearing) if isinstance(each, Loop)]
    if len(loops) < 2 or not isinstance(loops[0], ast.For):
        return False
    inner, outer = loops[0], loops[1]
    within = calls_in(inner)
    named = {last_name(each.func) for each in within}
    if "step" in named or "backward" not in named:
        return False
    if conditions_of(program, clearing) - conditions_of(program, inner.body[0]):
        return False  # In some rounds alone, as in the first one.
    return any(
        one is clearing and step not in within and outer in ancestors(step)
        for one, step in clearings_with_steps(calls_beside(clearing))
    )


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def gradients_are_cleared(program: Program) -> Iterator[Finding]:
    """A step in one branch of a loop, where only the other branch clears the gradients.

    Each step goes along the sum of all gradients since the start, and training diverges. Silent where a
    function that is called beside it, or a library, may clear them.

    Bad: `if amp: scaler.step(optimizer)` beside `else: optimizer.zero_grad(); ...; optimizer.step()`. Good:
    `optimizer.zero_grad()` in both. Source: torch's documentation of Optimizer.zero_grad.
    """
    if any(_CLEARING.search(name) for file in program.files for name in file.calls_of if name != "zero_grad"):
        return
    if any(file.set_attributes.get("grad") for file in program.files):
        return
    clearing = [call for file in program.files for call in file.calls_of.get("zero_grad", ())]
    for step in (each for file in program.files for each in file.calls_of.get("step", ())):
        loops = [each for each in ancestors_in_function(step) if isinstance(each, Loop)]
        own = [each for each in clearing if scope_of(each) is scope_of(step)]
        if not loops or not own or not all(are_exclusive(each, step) for each in own):
            continue
        named = {last_name(each.func) for each in calls_beside(step)}
        elsewhere = {getattr(scope_of(each).node, "name", None) for each in clearing if each not in own}
        backward = [each for each in calls_in(loops[0]) if last_name(each.func) == "backward"]
        together = any(not are_exclusive(each, step) for each in backward)
        if together and not named & elsewhere and steps_optimizer(program, step):
            yield finding_at(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                step,
                "nothing clears the gradients on this way: each step goes along the sum of all gradients "
                "since the start",
                remedy="Call `optimizer.zero_grad()` in both branches, behind the step or before backward.",
                related=[related_at(own[0], "cleared only here")],
            )


_CLEARING = re.compile(r"zero_?grad|zero_\b|(clear|reset)_?grad|set_to_none")
"""In the names of what may clear gradients in another way."""


_COUNTED = re.compile(r"% \(?([\w.]+)")
"""In a test that holds once in so many rounds: `(step + 1) % accumulate == 0`."""


def _severity_of_clearing(program: Program, accelerator: ast.Call) -> Severity | None:
    """By how many micro-batches make a step: none where that is one, or set in a way that is not read."""
    steps = argument_of(accelerator, "gradient_accumulation_steps", 3)
    if steps is None or argument_of(accelerator, "gradient_accumulation_plugin"):
        return None
    option = default_of_option(program, steps)
    known = constant_argument(program, steps)
    value = option.value if option else known and known.value
    if value == 1:
        return Severity.INFO if option else None
    return Severity.WARNING if value is None else Severity.ERROR


def counted_conditions(program: Program, step: ast.Call) -> set[tuple[str, bool]]:
    """The tests by which something runs once in so many rounds, as written."""
    return {each for each in conditions_of(program, step) if each[1] and _COUNTED.search(each[0])}


def gathers_micro_batches(program: Program, step: ast.Call, rare: set[tuple[str, bool]]) -> Severity | None:
    """How surely a step once in so many rounds is for the gradients of all of them.

    Its number is named so, or the loss is divided by it, or nothing else is stepped; not where an optimizer
    has its turn between, or a backward of its own then.
    """
    numbers = {re.escape(match[1]) for text, _ in rare if (match := _COUNTED.search(text))}
    divided = any(re.search(rf"/=? {each}\b", ast.unparse(scope_of(step).node)) for each in numbers)
    steps = [each for each in calls_beside(step) if steps_optimizer(program, each)]
    if not all(
        bool(rare & conditions_of(program, each)) is (each in steps)
        for each in calls_beside(step)
        if last_name(each.func) == "backward" or each in steps
    ):
        return None
    if divided or any("accum" in each.lower() for each in dict(rare)):
        return Severity.ERROR
    return Severity.WARNING if len(steps) == 1 else None


def _is_at_each(program: Program, clearing: ast.Call, often: list[ast.Call]) -> bool:
    """Whether gradients are cleared wherever backward runs, in the same round of the same loop."""
    under = conditions_of(program, clearing)
    loops = [each for each in ancestors_in_function(clearing) if isinstance(each, Loop)]
    backward = [each for each in often if last_name(each.func) == "backward"]
    beside = [each for each in backward if under <= conditions_of(program, each)]
    around = ([one for one in ancestors_in_function(each) if isinstance(one, Loop)] for each in beside)
    return any(each[:1] == loops[:1] for each in around)


CLEARING_RULES = (gathered_gradients_reach_their_step, gradients_are_cleared)
