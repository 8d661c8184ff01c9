"""Engines of DeepSpeed that run backward and never take a step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import argument_of, constant_argument, origins, parts_of
from launcher.program.index import ancestors, class_of, last_name, parent_of, scope_of
from launcher.program.objects.hooks import library_bases
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import Reachability
from launcher.program.surroundings.options import DefaultRun, default_of_option
from launcher.program.values import UNKNOWN, Constant, External, Instance, Value, alternatives, like
from launcher.rules.script.configuration_files import ConfigurationFiles
from launcher.rules.script.findings import finding_at, related_at


@finds(Stage.SCRIPT, ddp.ENGINE_NEVER_STEPPED)
def engines_are_stepped(program: Program) -> Iterator[Finding]:
    """A DeepSpeed engine whose `backward` is called and whose `step` is not.

    The gradients accumulate and no parameter ever changes; `optimizer.step()` in its place skips the loss
    scale, the clipping and the zeroing that the engine does. A step that waits for the boundary of an
    accumulation never comes, as the engine counts its micro-batches in step(). So too one of several
    engines, where others alone are stepped, a step that is named and not called, and Lightning's manual
    optimization under DeepSpeed's strategy, where the optimizer's step is the engine's.

    Bad: `engine.backward(loss); optimizer.step()`. Good: `engine.backward(loss); engine.step()`. Source:
    what accelerate's DeepSpeedEngineWrapper writes of the engine's step.
    """
    yield from _never_stepped_by_hand(program)
    backward = [call for call, _ in program.calls(f"{_ENGINE}.backward")]
    losses = (call for file in program.files for call in file.calls_of.get("backward", ()))
    if any(True for _ in program.calls("deepspeed.initialize")):  # `loss.backward()` in its place.
        backward += [each for each in losses if _is_of_an_engine(program, each)]
    if not backward or program.unread:
        return
    if any(name in file.calls_of for file in program.files for name in _STEPPING_OTHERWISE):
        return
    steps = calls = [call for file in program.files for call in file.calls_of.get("step", ())]
    steps = [call for call in calls if _may_be_the_engines(program, call)]
    read = [each for file in program.files for each in file.attributes.get("step", ())]
    read = [
        each for each in read if parent_of(each) not in calls and _is_an_engine(program.value(each.value))
    ]
    if any(not isinstance(parent_of(each), ast.Expr) for each in read):
        return  # Whoever is given `engine.step` calls it.
    steps = [call for call in steps if not program.analysis(Reachability).is_named_nowhere(call)]
    run = program.analysis(DefaultRun)
    taken = [call for call in steps if not run.leaves_out(call)]
    backward = [call for call in backward if not run.leaves_out(call)]
    waiting = [test for call in steps if (test := _waits_for_itself(program, call)) is not None]
    if not taken and backward:
        yield finding_at(
            ddp.ENGINE_NEVER_STEPPED,
            backward[0],
            "backward runs here, and step() of the DeepSpeed engine is never called: no parameter changes as "
            "the engine would change it",
            # What an option may switch on, a run may be meant to.
            severity=Severity.WARNING if any(map(run.is_left_to_options, steps)) else None,
            related=[
                *(related_at(each, "no run comes here by its defaults") for each in steps[:1]),
                *(related_at(each, "the step is named here, and not called") for each in read[:1]),
            ],
        )
    elif len(waiting) == len(steps) and _accumulates(program):
        yield finding_at(
            ddp.ENGINE_NEVER_STEPPED,
            waiting[0],
            "the engine is stepped only at the boundary of an accumulation, and step() itself counts the "
            "micro-batches: the boundary never comes, and no parameter changes",
            remedy="Call `engine.step()` behind every `engine.backward(loss)`: it updates at boundaries.",
        )
    else:
        yield from _one_of_several(program, backward, taken)


_ENGINE = "deepspeed.DeepSpeedEngine"
_STEPPING_OTHERWISE = (
    *("train_batch", "step_and_zero_grad"),
    *("register_hook", "register_post_accumulate_grad_hook"),
)
"""What steps the engine for a program, and what may change a parameter as soon as its gradient is there."""


def _one_of_several(program: Program, backward: list[ast.Call], steps: list[ast.Call]) -> Iterator[Finding]:
    """An engine that runs backward beside another one which alone is stepped in the same function."""
    for call in backward:
        owner = _owner(call)
        beside = [each for each in steps if scope_of(each) is scope_of(call)]
        stepped = {ast.dump(each) for step in beside if (each := _owner(step)) is not None}
        if (
            owner is None
            or not beside
            or ast.dump(owner) in stepped
            or not _is_an_engine(program.value(owner))
        ):
            continue
        if all(
            _is_an_engine(program.value(_owner(each) or each.func)) for each in beside
        ) and not _is_handed_on(program, owner):
            yield finding_at(
                ddp.ENGINE_NEVER_STEPPED,
                call,
                f"`{ast.unparse(owner)}` runs backward here, and step() of another engine alone is called: "
                "none of its own parameters changes",
                remedy=f"Call `{ast.unparse(owner)}.step()`, too.",
                related=[related_at(beside[0], "the other engine's step")],
            )


def _owner(call: ast.Call) -> ast.Name | ast.Attribute | None:
    """The variable or attribute whose method is called."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return owner if isinstance(owner, ast.Name | ast.Attribute) else None


def _is_handed_on(program: Program, engine: ast.Name | ast.Attribute) -> bool:
    """Whether an engine is used by its name in another way than to be called or asked for an attribute, or
    takes a step anywhere: somebody else may step it."""
    name = last_name(engine) or ""
    for file in program.mentioning(name):
        for use in (*file.names.get(name, ()), *file.attributes.get(name, ())):
            outer = parent_of(use)
            if not isinstance(use.ctx, ast.Load):
                continue
            is_called = isinstance(outer, ast.Call) and outer.func is use
            is_asked = isinstance(outer, ast.Attribute) and outer.attr != "step"
            if not is_called and not is_asked:
                return True
    return False


def _may_be_the_engines(program: Program, call: ast.Call) -> bool:
    """Whether a step may be the engine's: not that of an optimizer or schedule, or of the program's own."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    is_a_schedule = "sched" in (last_name(owner) or "").lower()
    value = program.value(owner)
    return _is_an_engine(value) or (UNKNOWN in alternatives(value) and not is_a_schedule)


def _is_an_engine(value: Value) -> bool:
    """Whether a value may be DeepSpeed's engine."""
    return any(
        each.name.startswith(_ENGINE)
        or (isinstance(each, Instance) and each.name == "deepspeed.initialize" and not each.item)
        for each in alternatives(value)
        if isinstance(each, External | Instance)
    )


def _is_of_an_engine(program: Program, backward: ast.Call) -> bool:
    """Whether a loss comes from the forward pass of an engine."""
    called = (each.func for each in parts_of(program, backward.func) if isinstance(each, ast.Call))
    return any(_is_an_engine(program.value(function)) for function in called)


def _waits_for_itself(program: Program, step: ast.Call) -> ast.expr | None:
    """The test for the boundary of an accumulation under which alone a step stands."""
    for outer in ancestors(step):
        if isinstance(outer, ast.If) and any(step in walk(each) for each in outer.body):
            asked = origins(program, outer.test)
            boundary = "is_gradient_accumulation_boundary"
            if all(isinstance(each, ast.Call) and last_name(each.func) == boundary for each in asked):
                return outer.test
    return None


def _accumulates(program: Program) -> bool:
    """Whether an engine surely accumulates over several micro-batches, by the configuration it is given."""
    for call, _ in program.calls("deepspeed.initialize"):
        given = argument_of(call, "config", 7) or argument_of(call, "config_params")
        for made in () if given is None else origins(program, given):
            named = zip(made.keys, made.values, strict=True) if isinstance(made, ast.Dict) else ()
            for key, value in named:
                if isinstance(key, ast.Constant) and key.value == _ACCUMULATION:
                    option = default_of_option(program, value)
                    number = constant_argument(program, value)
                    steps = getattr(option if number is None else number, "value", None)
                    return isinstance(steps, int) and steps > 1
        if given is not None:
            whole = like(given, ast.Name("config", ast.Load()))
            asked = like(given, ast.Attribute(whole, _ACCUMULATION, ast.Load()))
            entry = program.analysis(ConfigurationFiles).entry(asked, program.words or ())
            if entry is not None:
                return all(isinstance(each, int) and each > 1 for each in entry.values)
    return False


_ACCUMULATION = "gradient_accumulation_steps"


def _never_stepped_by_hand(program: Program) -> Iterator[Finding]:
    """LightningModules that run backward themselves, under DeepSpeed's strategy, and nowhere take a step: the
    optimizer's step is that of the engine."""
    trainers = [argument_of(call, "strategy", 1) for call, _ in program.calls("lightning.pytorch.Trainer")]
    if (
        not any(each is not None and _is_deepspeed(program.value(each)) for each in trainers)
        or program.unread
    ):
        return
    if any(name in file.calls_of for file in program.files for name in _STEPPING):
        return
    if any("step" in file.attributes for file in program.files):
        return
    for file in program.files:
        for call in file.calls_of.get("manual_backward", ()):
            function = scope_of(call).function
            owner = None if function is None else class_of(function.node)
            if owner is not None and "lightning.pytorch.LightningModule" in library_bases(
                owner, program.value
            ):
                yield finding_at(
                    ddp.ENGINE_NEVER_STEPPED,
                    call,
                    "backward runs here by hand, and no optimizer is stepped: the DeepSpeed engine below it "
                    "changes no parameter",
                    remedy="Call `self.optimizers().step()` behind it.",
                )


_STEPPING = ("step", "optimizer_step", "toggled_optimizer")


def _is_deepspeed(strategy: Value) -> bool:
    if isinstance(strategy, Constant):
        return isinstance(strategy.value, str) and strategy.value.startswith("deepspeed")
    return isinstance(strategy, Instance) and strategy.name.endswith(".DeepSpeedStrategy")


ENGINE_RULES = (engines_are_stepped,)
