"""Gradients: clipped while they are scaled or shard by shard, kept on their rank by `no_sync()`, never
reduced or applied.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from launcher.failure_modes import ddp, training_compiler
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.bindings import are_exclusive, branch_arms
from launcher.program.dataflow import (
    argument_of,
    calls_surely_run,
    calls_that_may_make,
    constant_argument,
    origins,
    parts_of,
)
from launcher.program.index import (
    ancestors,
    file_of,
    last_name,
    parent_of,
    scope_of,
    statement_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.model_averaging import averages_models
from launcher.program.ranks.participants import conditions_of, entered_under, shared_conditions
from launcher.program.ranks.reachability import Reachability
from launcher.program.ranks.sharded_models import keeps_whole_model
from launcher.program.ranks.training_loops import (
    LoopReach,
    calls_beside,
    calls_in,
    is_of_scaler,
    scaler_of,
    steps_optimizer,
)
from launcher.program.values import DDP, FSDP, Defined
from launcher.rules.script.findings import finding_at, insert_before, related_at
from launcher.rules.training_compiler import uses_xla

_OF_SCALERS = ("step", "update")
_CLIPS = tuple(f"torch.nn.utils.clip_grad_{name}" for name in ("norm_", "value_", "norm"))


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG, training_compiler.GRADIENTS_NOT_REDUCED)
def gradients_are_unscaled_before_they_are_clipped(program: Program) -> Iterator[Finding]:
    """Clipping between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` without `unscale_`.

    The gradients are still multiplied by the loss scale, of some ten thousand, so that all of them are cut
    down, to next to nothing after step() has divided by it. So too with torch's clip where Accelerate or
    Fabric trains in float16, whose own clips unscale first.

    Bad: `scaler.scale(loss).backward(); clip_grad_norm_(model.parameters(), 1.0); scaler.step(optimizer)`.
    Good: `scaler.unscale_(optimizer)` before the clip. Source: torch's examples of automatic mixed precision.
    """
    mode = ddp.ACCUMULATION_OR_CLIPPING_WRONG
    mode = training_compiler.GRADIENTS_NOT_REDUCED if uses_xla(program) else mode
    for clip, (backward, step) in _clipped_while_scaled(program).items():
        scaler, optimizer = ast.unparse(step.func).removesuffix(".step"), ast.unparse(step.args[0])
        beside = scope_of(step) is scope_of(clip)
        yield finding_at(
            mode,
            clip,
            f"the gradients are clipped while they are still multiplied by {scaler}'s loss scale: the "
            "clip cuts nearly all of them away, and the step trains with what is left",
            remedy=f"Call `{scaler}.unscale_({optimizer})` between backward and the clip.",
            related=[related_at(backward, "scaled here"), related_at(step, "unscaled no sooner than here")],
            fix=_before(clip, f"{scaler}.unscale_({optimizer})") if beside else None,
        )
    for clip, (backward, step) in _clipped_in_a_library(program).items():
        yield finding_at(
            mode,
            clip,
            "the gradients are clipped while they are still multiplied by the library's loss scale: the clip "
            "cuts nearly all of them away, and the step trains with what is left",
            remedy="Clip by the library, which unscales them first: `accelerator.clip_grad_norm_`, "
            "`fabric.clip_gradients`.",
            related=[related_at(backward, "scaled here"), related_at(step, "unscaled no sooner than here")],
        )


def _clipped_while_scaled(program: Program) -> dict[ast.Call, tuple[ast.Call, ast.Call]]:
    """The clips between a scaled backward pass and its scaler's step, with both, and no unscale_ before.

    In the order of a function or of a loop's turn, or of a method where nothing is ever unscaled.
    """
    backward = [each for file in program.files for each in file.calls_of.get("backward", ())]
    scalers = {each: ast.unparse(made) for each in backward if (made := scaler_of(program, each))}
    calls = [each for own in program.files for name in _OF_SCALERS for each in own.calls_of.get(name, ())]
    own = [each for each in calls if scalers and is_of_scaler(program, each, {*scalers.values()})]
    steps = [each for each in own if last_name(each.func) == "step"]
    if len(steps) == len(own):  # Whose scale is never adapted is no scaler of torch.
        return {}

    def kind_of(call: ast.Call) -> str | None:
        last = last_name(call.func) or ""
        if call in scalers or call in steps:
            return "step" if call in steps else "scaled"
        if last == "backward" and not isinstance(program.value(call.func), Defined):
            return last
        return "unscale" if "unscale" in last else "clip" if _clips(program, call) else None

    reach = program.analysis(LoopReach)
    bodies = {scope_of(each).node: None for each in (*scalers, *steps)}
    ways = [way for each in bodies for way in reach.ways(getattr(each, "body", []), kind_of)]
    if not any({"scaled", "step"} <= {kind for kind, _ in way} for way in ways):
        loops = {each: None for step in steps for each in reach.loops_around(step)}
        turns = [way for each in loops for way in reach.ways(each.body, kind_of)]
        if not turns and not any("unscale" in name for file in program.files for name in file.calls_of):
            turns = [[("scaled", next(iter(scalers))), *way] for way in ways]
        ways = turns
    ordered = {call for way in ways for _, call in way}
    return _late_clips(ways) or _never_unscaled(program, scalers, steps, ordered)


def _never_unscaled(
    program: Program, scalers: Mapping[ast.Call, str], steps: list[ast.Call], ordered: set[ast.Call]
) -> dict[ast.Call, tuple[ast.Call, ast.Call]]:
    """The clips of a program that scales all its losses and nowhere unscales: in whatever order its hooks
    run, only the scaler's step divides by the scale."""
    words = {name for file in program.files for name in (*file.calls_of, *file.names, *file.attributes)}
    backward = [each for file in program.files for each in file.calls_of.get("backward", ())]
    if not steps or any("unscale" in each for each in words) or not all(each in scalers for each in backward):
        return {}
    reachability = program.analysis(Reachability)
    clips = [call for call, _ in program.calls(*_CLIPS) if call not in ordered and reachability.reaches(call)]
    found = [each for each in clips if not _speaks_of_scaling(backward[0], each)]
    return {each: (backward[0], steps[0]) for each in found if not _only_measures(each)}


def _only_measures(clip: ast.Call) -> bool:
    """Whether a clip is at infinity, which gives the norm and changes nothing."""
    limit = argument_of(clip, "max_norm", 1)
    return limit is not None and "inf" in ast.unparse(limit)


def _late_clips(ways: list[list[tuple[str, ast.Call]]]) -> dict[ast.Call, tuple[ast.Call, ast.Call]]:
    found: dict[ast.Call, tuple[ast.Call, ast.Call]] = {}
    sound = set[ast.Call]()
    for way in ways:
        scaled: ast.Call | None = None
        late: list[ast.Call] = []
        unscaled = False
        for kind, call in way:
            if kind in ("scaled", "backward"):
                scaled, late, unscaled = call if kind == "scaled" else None, [], False
            elif kind == "unscale":
                unscaled = True
            elif kind == "step":
                found.update({each: (scaled, call) for each in late[:1] if scaled is not None})
            elif unscaled or _is_unscaled_above(call):
                sound.add(call)
            elif scaled is not None and not _speaks_of_scaling(scaled, call):
                late.append(call)
    return {clip: how for clip, how in found.items() if clip not in sound}


def _is_unscaled_above(clip: ast.Call) -> bool:
    """Whether an `unscale_` stands before a clip in its function, on whatever way."""
    above = calls_beside(clip)
    return any("unscale" in (last_name(each.func) or "") and each.lineno < clip.lineno for each in above)


def _clips(program: Program, call: ast.Call) -> bool:
    """Whether a call is torch's clip, or the program's own, which multiplies gradients in place."""
    if program.qualified(call.func) in _CLIPS:
        return True
    called = program.value(call.func)
    if "clip" not in (last_name(call.func) or "") and not isinstance(called, Defined):
        return False
    if not isinstance(called, Defined) or not isinstance(called.node, ast.FunctionDef):
        return False
    parts = [*walk(called.node)]
    if any(isinstance(each, ast.Attribute) and "unscale" in each.attr for each in parts):
        return False
    inner = [each for each in calls_surely_run(program, call) if each is not call]
    if any(program.qualified(each.func) in _CLIPS for each in inner):
        return not any(last_name(each.func) in ("step", "backward") for each in inner)
    return "clip" in called.node.name and any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in ("mul_", "clamp_")
        and any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in walk(each.func))
        for each in parts
    )


def _speaks_of_scaling(backward: ast.AST, clip: ast.AST) -> bool:
    """Whether the clip stands under a test of its own that may ask whether gradients are scaled."""
    shared = {node for node, _ in branch_arms(backward)}
    words = ("amp", "scal", "fp16", "half", "precision", "dtype")
    return any(
        isinstance(node, ast.If)
        and node not in shared
        and any(w in ast.unparse(node.test).lower() for w in words)
        for node, _ in branch_arms(clip)
    )


def _before(call: ast.Call, line: str) -> Fix | None:
    """A line of its own before the statement in which a call stands."""
    statement = statement_of(call)
    edit = insert_before(statement, line) if isinstance(statement, ast.Expr | ast.Assign) else None
    return None if edit is None else Fix(True, (edit,))


_SCALING = {"accelerate.Accelerator": ("mixed_precision", 2), "lightning.fabric.Fabric": ("precision", 4)}
"""Libraries that scale losses where this argument, at its place, asks for float16."""
_IN_HALF = ("fp16", "16-mixed", "16", 16)


def _clipped_in_a_library(program: Program) -> dict[ast.Call, tuple[ast.Call, ast.Call]]:
    """torch's clips of gradients that Accelerate or Fabric has scaled in its backward pass, where nothing in
    the program unscales or clips by the library; each with that pass and the step behind it."""
    words = {name for file in program.files for name in (*file.calls_of, *file.attributes)}
    if any("unscale" in each or each in ("scaler", "clip_gradients") for each in words):
        return {}
    found: dict[ast.Call, tuple[ast.Call, ast.Call]] = {}
    for made, name in program.calls(*_SCALING):
        value = constant_argument(program, argument_of(made, *_SCALING[name]))
        if value is None or value.value not in _IN_HALF:
            continue
        for clip, _ in program.calls(*_CLIPS):
            beside = calls_beside(clip)
            before = [each for each in beside if each.lineno < clip.lineno]
            backward = [each for each in before if program.qualified(each.func) == f"{name}.backward"]
            behind = (each for each in beside if each.lineno > clip.lineno)
            step = next((each for each in behind if last_name(each.func) == "step"), None)
            if backward and step is not None and not _only_measures(clip):
                found[clip] = backward[-1], step
    return found


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def sharded_gradients_are_clipped_together(program: Program) -> Iterator[Finding]:
    """torch's own clip_grad_norm_ on the parameters of an FSDP version 1 model.

    It takes the norm of this rank's shard for that of all gradients: every rank scales by another factor.
    Right with `fully_shard` (version 2), whose gradients are DTensors, and with NO_SHARD.

    Bad: `torch.nn.utils.clip_grad_norm_(fsdp_model.parameters(), 1.0)`. Good:
    `fsdp_model.clip_grad_norm_(1.0)`. Source: torch's documentation of FullyShardedDataParallel.
    """
    if any(
        last_name(call.func) == "clip_grad_norm_" and program.qualified(call.func) not in _CLIPS
        for file in program.files
        for call in file.calls_of.get("clip_grad_norm_", ())
    ):
        return
    for call, _ in program.calls(_CLIPS[0], _CLIPS[2]):
        given = argument_of(call, "parameters", 0)
        asked = () if given is None else (each for each in parts_of(program, given))
        models = [
            each.value
            for each in asked
            if isinstance(each, ast.Attribute) and each.attr in ("parameters", "named_parameters")
        ]
        wrapped = [one for model in models for one in calls_that_may_make(program, model, FSDP)]
        if wrapped and all(_is_sharded(program, each) for each in wrapped):
            written = ast.unparse(models[0])
            yield finding_at(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                call,
                f"`{written}` is sharded by FSDP: this sees the norm of this rank's shard alone, and every "
                "rank scales its gradients by another factor",
                remedy=f"Use `{written}.clip_grad_norm_(...)`, which takes the norm over all ranks.",
                related=[related_at(wrapped[0], "sharded here")],
            )


def _is_sharded(program: Program, wrapper: ast.Call) -> bool:
    """Whether an FSDP model has shards: by default, or by a strategy that is written out."""
    strategy = argument_of(wrapper, "sharding_strategy", 2)
    if strategy is None:
        return not any(each.arg is None for each in wrapper.keywords)
    return not keeps_whole_model(program, strategy)


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def sharded_gradients_have_their_scaler(program: Program) -> Iterator[Finding]:
    """torch's plain GradScaler beside a model that FSDP version 1 shards.

    It looks for infinite gradients in this rank's shard alone: one rank skips a step that the others make.
    A warning. Silent where the scaler may be off, as with bfloat16, and where DDP may be chosen instead.

    Bad: `GradScaler()`. Good: `torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler()`.
    Source: torch/distributed/fsdp/sharded_grad_scaler.py.
    """
    wrappers = [call for call, _ in program.calls(FSDP)]
    sharded = bool(wrappers) and all(_is_sharded(program, each) for each in wrappers)
    if not sharded or any(True for _ in program.calls(DDP)):
        return
    backwards = (each for file in program.files for each in file.calls_of.get("backward", ()))
    scalers = [scaler for each in backwards if (scaler := scaler_of(program, each)) is not None]
    used = {getattr(program.value(each), "call", None) for each in scalers}
    for call, _ in program.calls("torch.amp.GradScaler", "torch.cuda.amp.GradScaler"):
        enabled = argument_of(call, "enabled")
        words = "" if enabled is None else ast.unparse(enabled).lower()
        sure = enabled is None or isinstance(enabled, ast.Compare | ast.BoolOp)
        if call in used and sure and not any(word in words for word in ("16", "dtype", "precision", "amp")):
            yield finding_at(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                call,
                "FSDP shards the gradients, and this scaler looks for infinite ones in this rank's shard "
                "alone: one rank skips a step that the others make",
                severity=Severity.WARNING,
                remedy="Use torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler, or bfloat16.",
                related=[related_at(wrappers[0], "sharded here")],
            )


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def gradients_are_averaged_before_they_are_clipped(program: Program) -> Iterator[Finding]:
    """A clip between backward and the all_reduce by which a program averages its gradients itself.

    Each rank cuts its own gradients by another factor, so that the average is of none of them.

    Silent where a wrapper reduces them in backward, about a clip at infinity, which only measures, and about
    a reduction in a group.

    Bad: `clip_grad_norm_(params, 1.0)`, then `dist.all_reduce(p.grad)` for each of them. Good: the other way
    round. Source: torch's documentation of clip_grad_norm_ and all_reduce.
    """
    if any(True for _ in program.calls(DDP, FSDP)) or program.mentioning("fully_shard"):
        return
    averages = {call for call, _ in program.calls("torch.distributed.all_reduce") if _averages(program, call)}
    if not averages:
        return

    def kind_of(call: ast.Call) -> str | None:
        if call in averages:
            return "average"
        if program.qualified(call.func) in _CLIPS:
            return None if _only_measures(call) else "clip"
        return "backward" if last_name(call.func) == "backward" else None

    reach = program.analysis(LoopReach)
    found: dict[ast.Call, ast.Call] = {}
    for way in (way for loop in reach.loops for way in reach.ways(loop.body, kind_of)):
        last = ""
        for number, (kind, call) in enumerate(way):
            if kind == "average" and last == "clip":
                found.setdefault(way[number - 1][1], call)
            last = kind if kind != "clip" or last == "backward" else ""
    for clip, average in found.items():
        yield finding_at(
            ddp.ACCUMULATION_OR_CLIPPING_WRONG,
            clip,
            "each rank clips its own gradients here, by another factor, before they are averaged",
            remedy="Clip behind the all_reduce, where the gradients are the same on all ranks.",
            related=[related_at(average, "averaged only here")],
        )


def _averages(program: Program, reduction: ast.Call) -> bool:
    """Whether a reduction over all ranks is of gradients themselves, and not of their norm."""
    given = argument_of(reduction, "tensor", 0)
    if given is None or argument_of(reduction, "group", 2) is not None:
        return False
    names = {getattr(each, "attr", "") for each in parts_of(program, given)}
    return "grad" in names and not any("norm" in each for each in names)


CLIPPING_RULES = (
    gradients_are_unscaled_before_they_are_clipped,
    sharded_gradients_are_clipped_together,
    sharded_gradients_have_their_scaler,
    gradients_are_averaged_before_they_are_clipped,
)


# Gradients that stay on their rank: an optimizer's step, or backward alone, inside `no_sync()`.


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def steps_use_synchronised_gradients(program: Program) -> Iterator[Finding]:
    """An optimizer's step inside `no_sync()`, or a `no_sync()` around backward without the forward.

    Inside, gradients stay on their rank: a step with them lets the models of the ranks drift apart. And DDP
    decides in forward whether the next backward synchronises: a `no_sync()` around backward alone holds
    nothing back, which costs time and no more (a warning); not where forward has a no_sync() of its own.

    Bad: `with model.no_sync(): loss.backward(); optimizer.step()`. Good: the last micro-batch and the step
    outside. Source: torch's documentation of DistributedDataParallel.no_sync.
    """
    for file in program.files:
        for call in file.calls_of.get("no_sync", ()):
            always = isinstance(parent_of(call), ast.withitem)
            block = next(iter(_blocks_entered(call)), None)
            if block is None:
                if _is_entered_behind_forward(program, call):
                    yield _holds_nothing_back(call)
                continue
            inside = [
                each for each in file.calls if block in ancestors(each) and scope_of(each) is scope_of(call)
            ]
            inside = [each for each in inside if each.lineno >= block.body[0].lineno]
            step = next((each for each in inside if always and steps_optimizer(program, each)), None)
            if step is None and always and _is_the_models(program, call):
                step = _unknown_step(program, inside)
            if step is not None and not averages_models(program):
                yield finding_at(
                    ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                    step,
                    f"the optimizer steps inside `{ast.unparse(call)}`, with gradients that no other rank "
                    "has seen: the models of the ranks drift apart",
                    remedy="Run the last micro-batch's forward and backward, and the step, outside of it.",
                    related=[related_at(call, "gradients stay on their rank from here on")],
                )
            elif step is None and _is_backward_alone(program, call, inside):
                yield _holds_nothing_back(call)


def _holds_nothing_back(call: ast.Call) -> Finding:
    return finding_at(
        ddp.ACCUMULATION_OR_CLIPPING_WRONG,
        call,
        "the forward pass is not inside this no_sync(): DDP decides in forward whether the next backward "
        "sends gradients, so that they are sent at every micro-batch all the same",
        remedy="Enter it before the forward pass.",
        severity=Severity.WARNING,
    )


def _is_entered_behind_forward(program: Program, call: ast.Call) -> bool:
    """Whether a stack of contexts enters a DDP model's no_sync() between its forward and backward passes."""
    owner, entering = getattr(call.func, "value", None), parent_of(call)
    is_entered = isinstance(entering, ast.Call) and last_name(entering.func) == "enter_context"
    if owner is None or not is_entered or not calls_that_may_make(program, owner, DDP):
        return False
    beside = calls_beside(call)
    forward = [each.lineno for each in beside if ast.dump(each.func) == ast.dump(owner)]
    backward = [each.lineno for each in beside if last_name(each.func) == "backward"]
    return bool(forward) and max(forward) < call.lineno < min(backward, default=0)


def _blocks_entered(call: ast.Call) -> Iterator[ast.With]:
    """The blocks that a context is for: `with call():`, `with call() if test else other:`, or by a name."""
    outer = parent_of(call)
    while isinstance(outer, ast.IfExp):
        outer = parent_of(outer)
    items = [outer]
    if isinstance(outer, ast.Assign) and isinstance(outer.targets[0], ast.Name):
        name = outer.targets[0].id
        uses = [each for each in file_of(call).names.get(name, ()) if scope_of(each) is scope_of(call)]
        items = [parent_of(each) for each in uses]
    blocks = [parent_of(each) for each in items if isinstance(each, ast.withitem)]
    yield from (each for each in blocks if isinstance(each, ast.With))


def _is_the_models(program: Program, no_sync: ast.Call) -> bool:
    """Not of a library whose optimizers know of it, such as Accelerate's."""
    return not (program.qualified(no_sync.func) or "").startswith(("accelerate.", "lightning.", "deepspeed."))


def _unknown_step(program: Program, inside: list[ast.Call]) -> ast.Call | None:
    """The step, behind a backward, of an optimizer that a library has wrapped, or of what the same function
    tells to forget gradients: an optimizer is told so, a schedule has none."""
    backward = next((each for each in inside if last_name(each.func) == "backward"), None)
    for call in inside:
        stepping = call.func.value if isinstance(call.func, ast.Attribute) else None
        if backward is None or stepping is None or last_name(call.func) != "step":
            continue
        if program.qualified(call.func) is not None or call.lineno <= backward.lineno:
            continue
        if _was_an_optimizer(program, stepping):
            return call
        written = ast.dump(stepping)
        for each in file_of(call).calls_of.get("zero_grad", ()):
            if (
                isinstance(each.func, ast.Attribute)
                and ast.dump(each.func.value) == written
                and scope_of(each) is scope_of(call)
            ):
                return call
    return None


def _was_an_optimizer(program: Program, stepping: ast.expr) -> bool:
    """Whether torch's optimizer was given to the call whose results hold this one at the same place:
    `model, optimizer = accelerator.prepare(model, optimizer)`."""
    given = [
        binding.value.args[binding.item]
        for binding in program.evaluation.sources(stepping)
        if isinstance(binding.value, ast.Call)
        and binding.item is not None
        and binding.item < len(binding.value.args)
    ]
    made = (each.func for one in given for each in origins(program, one) if isinstance(each, ast.Call))
    names = [program.qualified(each) or "" for each in made]
    return any(name.startswith("torch.optim.") and "lr_scheduler" not in name for name in names)


def _is_backward_alone(program: Program, call: ast.Call, inside: list[ast.Call]) -> bool:
    """Whether all that stands in a DDP model's no_sync() is backward of a loss that is made before."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if (
        owner is None
        or not calls_that_may_make(program, owner, DDP)
        or not inside
        or _has_its_forward(owner, call)
    ):
        return False
    names = [last_name(each.func) for each in inside]
    if "backward" not in names or not all(name in ("backward", "scale") for name in names):
        return False
    for each in inside:
        whole = each.func.value if isinstance(each.func, ast.Attribute) else None
        loss = each.args[0] if last_name(each.func) == "scale" and each.args else whole
        while isinstance(loss, ast.BinOp):
            loss = loss.left
        if isinstance(loss, ast.Call):
            continue
        bindings = program.evaluation.sources(loss) if isinstance(loss, ast.Name) else []
        if not bindings or not all(getattr(b.node, "lineno", call.lineno) < call.lineno for b in bindings):
            return last_name(each.func) == "backward" and isinstance(whole, ast.Call) and "scale" in names
    return True


def _has_its_forward(owner: ast.expr, call: ast.Call) -> bool:
    """Whether the forward pass stands in another no_sync() of the same model, in the same function."""
    model = ast.dump(owner)
    blocks = [
        parent_of(parent_of(each) or each)
        for each in file_of(call).calls_of.get("no_sync", ())
        if each is not call and scope_of(each) is scope_of(call)
    ]
    return any(
        isinstance(each, ast.Call) and ast.dump(each.func) == model
        for block in blocks
        if isinstance(block, ast.With)
        for statement in block.body
        for each in walk(statement)
    )


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def the_last_micro_batch_is_synchronised(program: Program) -> Iterator[Finding]:
    """A `no_sync()` around the very micro-batch after which the optimizer steps, or a clip inside a window.

    The step uses gradients that no other rank has seen: where the condition is upside down, or where all
    backward passes of a function stand inside. A clip behind each micro-batch cuts what is not reduced yet,
    by another factor on each rank (a warning).

    Bad: `with model.no_sync() if last else nullcontext(): ...` and `if last: optimizer.step()`. Good:
    `nullcontext() if last else model.no_sync()`. Source: torch's documentation of no_sync.
    """
    for file in program.files:
        for call in file.calls_of.get("no_sync", ()):
            if not _is_the_models(program, call) or averages_models(program):
                continue
            for place, under in entered_under(program, call):
                behind = [each for each in calls_beside(place) if each.lineno > place.lineno]
                steps = {
                    each: conditions_of(program, each) for each in behind if steps_optimizer(program, each)
                }
                under -= {one for step in steps for one in shared_conditions(program, place, step)}
                if any(under & each for each in steps.values()) or _is_never_left(program, call, [*steps]):
                    yield finding_at(
                        ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                        call,
                        "no_sync() is on for the last micro-batch before the optimizer's step, too: it steps "
                        "with gradients that no other rank has seen, and the models of the ranks drift apart",
                        remedy="Leave no_sync() for the micro-batch after which the optimizer steps.",
                        related=[related_at(each, "the step") for each in steps],
                    )
                block = next((each for each in ancestors(place) if isinstance(each, ast.With)), place)
                closing = {(test, not holds) for test, holds in under}
                clips = [each for each in behind if _clips(program, each) and block not in ancestors(each)]
                for clip in clips if steps and all(closing & each for each in steps.values()) else ():
                    if not closing & conditions_of(program, clip):
                        yield finding_at(
                            ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                            clip,
                            "this clips after every micro-batch, also those whose gradients are not reduced "
                            "yet: each rank cuts what it has gathered by another factor",
                            remedy="Clip where the optimizer steps, right before it.",
                            severity=Severity.WARNING,
                            related=[related_at(call, "gradients stay on their rank")],
                        )


def _is_never_left(program: Program, call: ast.Call, steps: list[ast.Call]) -> bool:
    """Whether all backward passes of a function stand in a `no_sync()` and its steps behind it, also those
    of the blocks to which it yields. A pass that never goes before those steps counts for nothing."""
    item = parent_of(call)
    block = parent_of(item) if isinstance(item, ast.withitem) else None
    backward = [
        each
        for each in calls_beside(call)
        if any(last_name(inner.func) == "backward" for inner in calls_surely_run(program, each))
    ]
    steps = [each for each in steps if not are_exclusive(each, call)]
    backward = [each for each in backward if not all(are_exclusive(each, step) for step in steps)]
    function = scope_of(call).node
    yields = file_of(call).yields_of.get(function, ())
    inside = [block in [*ancestors(each)] for each in (*steps, *yields)]
    if block is None or not steps or any(inside[: len(steps)]) or not all(inside[len(steps) :]):
        return False
    if backward or not isinstance(function, ast.FunctionDef) or not yields:
        return bool(backward) and all(block in ancestors(each) for each in backward)
    sites = program.evaluation.callers.call_sites(function) or ()
    blocks = [parent_of(item) for site in sites if isinstance(item := parent_of(site.call), ast.withitem)]
    return any(last_name(each.func) == "backward" for block in blocks if block for each in calls_in(block))


NO_SYNC_RULES = (
    steps_use_synchronised_gradients,
    the_last_micro_batch_is_synchronised,
)
