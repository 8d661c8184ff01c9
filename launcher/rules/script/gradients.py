"""Gradients between backward and step: clipped while scaled, clipped shard by shard, never synchronised."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Fix, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.arguments import argument
from launcher.scripts.distributed import DDP, FSDP
from launcher.scripts.edits import statement_before
from launcher.scripts.origins import may_be
from launcher.scripts.program import Program
from launcher.scripts.reaching import arms_of
from launcher.scripts.scopes import ancestors, file_of, last_name, parent_of, scope_of, statement_of
from launcher.scripts.values import Constant, Defined, External, Instance, Made

_CLIPS = (
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad_norm",
)


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def gradients_are_unscaled_before_they_are_clipped(program: Program) -> Iterator[Finding]:
    """Clipping between `scaler.scale(loss).backward()` and `scaler.step(optimizer)` without `unscale_`.

    The gradients are still multiplied by the loss scale, of some ten thousand, so that all of them are cut
    down, to next to nothing after step() has divided by it.

    Bad: `scaler.scale(loss).backward(); clip_grad_norm_(model.parameters(), 1.0); scaler.step(optimizer)`.
    Good: `scaler.unscale_(optimizer)` before the clip. Source: torch's examples of automatic mixed precision.
    """
    for file in program.files:
        seen: set[tuple[ast.AST, str]] = set()
        for backward in file.calls_of.get("backward", ()):
            scaler = _scaler_of(program, backward)
            if scaler is None:
                continue
            scope, written = scope_of(backward), ast.unparse(scaler)
            if (scope.node, written) in seen:
                continue
            seen.add((scope.node, written))
            clip = _clipped_while_scaled(program, backward, written)
            if clip is None:
                continue
            call, step = clip
            optimizer = ast.unparse(step.args[0])
            yield found(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                call,
                f"the gradients are clipped while they are still multiplied by {written}'s loss scale: the "
                "clip cuts nearly all of them away, and the step trains with what is left",
                remedy=f"Call `{written}.unscale_({optimizer})` between backward and the clip.",
                related=[note(backward, "scaled here"), note(step, "unscaled no sooner than here")],
                fix=_before(call, f"{written}.unscale_({optimizer})"),
            )


def _scaler_of(program: Program, backward: ast.Call) -> ast.expr | None:
    """`scaler` of `scaler.scale(loss).backward()`."""
    owner = backward.func.value if isinstance(backward.func, ast.Attribute) else None
    if not isinstance(owner, ast.Call) or not isinstance(owner.func, ast.Attribute) or len(owner.args) != 1:
        return None
    scaler = owner.func.value
    if owner.func.attr != "scale" or not isinstance(scaler, ast.Name | ast.Attribute):
        return None
    value = program.value(scaler)
    if isinstance(value, Made):
        return None
    if isinstance(value, Instance):
        enabled = argument(value.call, "enabled")
        off = enabled is not None and program.value(enabled) == Constant(False)
        return None if off or not value.name.endswith("GradScaler") else scaler
    return scaler


def _clipped_while_scaled(
    program: Program, backward: ast.Call, scaler: str
) -> tuple[ast.Call, ast.Call] | None:
    """The first clip behind a scaled backward, and the scaler's step behind that, without unscale_ before."""
    file, scope = file_of(backward), scope_of(backward)
    here = [each for each in file.calls if scope_of(each) is scope]
    unscaled = [each for each in here if "unscale" in (last_name(each.func) or "")]
    if not any(
        ast.unparse(each.func) == f"{scaler}.update" for each in here if last_name(each.func) == "update"
    ):
        return None
    for clip in here:
        if clip.lineno <= backward.lineno or not _clips(program, clip):
            continue
        if _in_other_arms(backward, clip) or _speaks_of_scaling(backward, clip):
            continue
        if any(each.lineno < clip.lineno for each in unscaled):
            return None
        for step in here:
            named = last_name(step.func) == "step" and ast.unparse(step.func) == f"{scaler}.step"
            if named and step.lineno > clip.lineno and step.args and not _in_other_arms(clip, step):
                return clip, step
    return None


def _clips(program: Program, call: ast.Call) -> bool:
    """Whether a call is torch's clip, or the program's own, which multiplies gradients in place."""
    if program.qualified(call.func) in _CLIPS:
        return True
    if "clip" not in (last_name(call.func) or ""):
        return False
    called = program.value(call.func)
    if not isinstance(called, Defined) or not isinstance(called.node, ast.FunctionDef):
        return False
    parts = [*ast.walk(called.node)]
    if any(isinstance(each, ast.Attribute) and "unscale" in each.attr for each in parts):
        return False
    return any(
        isinstance(each, ast.Call)
        and isinstance(each.func, ast.Attribute)
        and each.func.attr in ("mul_", "clamp_")
        and any(isinstance(part, ast.Attribute) and part.attr == "grad" for part in ast.walk(each.func))
        for each in parts
    )


def _in_other_arms(one: ast.AST, other: ast.AST) -> bool:
    """Whether two places stand in different arms of one `if`, of which one alone runs."""
    first = {node: part for node, part in arms_of(one) if isinstance(node, ast.If)}
    return any(node in first and first[node] != part for node, part in arms_of(other))


def _speaks_of_scaling(backward: ast.AST, clip: ast.AST) -> bool:
    """Whether the clip stands under a test of its own that may ask whether gradients are scaled."""
    shared = {node for node, _ in arms_of(backward)}
    words = ("amp", "scal", "fp16", "half", "precision", "dtype")
    return any(
        isinstance(node, ast.If)
        and node not in shared
        and any(w in ast.unparse(node.test).lower() for w in words)
        for node, _ in arms_of(clip)
    )


def _before(call: ast.Call, line: str) -> Fix | None:
    """A line of its own before the statement in which a call stands."""
    statement = statement_of(call)
    edit = statement_before(statement, line) if isinstance(statement, ast.Expr | ast.Assign) else None
    return None if edit is None else Fix(True, (edit,))


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
        given = argument(call, "parameters", 0)
        if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Attribute):
            continue
        model = given.func.value
        if given.func.attr != "parameters" or given.args:
            continue
        wrapped = may_be(program, model, FSDP)
        if wrapped and all(_is_sharded(program, each) for each in wrapped):
            written = ast.unparse(model)
            yield found(
                ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                call,
                f"`{written}` is sharded by FSDP: this sees the norm of this rank's shard alone, and every "
                "rank scales its gradients by another factor",
                remedy=f"Use `{written}.clip_grad_norm_(...)`, which takes the norm over all ranks.",
                related=[note(wrapped[0], "sharded here")],
            )


def _is_sharded(program: Program, wrapper: ast.Call) -> bool:
    """Whether an FSDP model has shards: by default, or by a strategy that is written out."""
    strategy = argument(wrapper, "sharding_strategy", 2)
    if strategy is None:
        return not any(each.arg is None for each in wrapper.keywords)
    value = program.value(strategy)
    return isinstance(value, External) and value.name.endswith(
        ("FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD")
    )


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def steps_use_synchronised_gradients(program: Program) -> Iterator[Finding]:
    """An optimizer's step inside `no_sync()`, or a `no_sync()` around backward without the forward.

    Inside, gradients stay on their rank: a step with them lets the models of the ranks drift apart. And DDP
    decides in forward whether the next backward synchronises: a `no_sync()` around backward alone holds
    nothing back, which costs time and no more (a warning).

    Bad: `with model.no_sync(): loss.backward(); optimizer.step()`. Good: the last micro-batch and the step
    outside. Source: torch's documentation of DistributedDataParallel.no_sync.
    """
    for file in program.files:
        for call in file.calls_of.get("no_sync", ()):
            item = parent_of(call)
            block = None if item is None else parent_of(item)
            if not isinstance(item, ast.withitem) or not isinstance(block, ast.With):
                continue
            inside = [
                each for each in file.calls if block in ancestors(each) and scope_of(each) is scope_of(call)
            ]
            inside = [each for each in inside if each.lineno >= block.body[0].lineno]
            step = next((each for each in inside if _steps(program, each)), None)
            if step is None and _is_the_models(program, call):
                step = _unknown_step(program, inside)
            if step is not None and not _averages(program):
                yield found(
                    ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                    step,
                    f"the optimizer steps inside `{ast.unparse(call)}`, with gradients that no other rank "
                    "has seen: the models of the ranks drift apart",
                    remedy="Run the last micro-batch's forward and backward, and the step, outside of it.",
                    related=[note(call, "gradients stay on their rank from here on")],
                )
            elif step is None and _is_backward_alone(program, call, inside):
                yield found(
                    ddp.ACCUMULATION_OR_CLIPPING_WRONG,
                    call,
                    "the forward pass is not inside this no_sync(): DDP decides in forward whether the next "
                    "backward sends gradients, so that they are sent at every micro-batch all the same",
                    remedy="Put the forward pass into the `with` as well.",
                    severity=Severity.WARNING,
                )


def _steps(program: Program, call: ast.Call) -> bool:
    """Whether a call is an optimizer's step, or a scaler's with an optimizer."""
    if last_name(call.func) != "step":
        return False
    name = program.qualified(call.func) or ""
    return (name.startswith("torch.optim.") and "lr_scheduler" not in name) or name.endswith(
        "GradScaler.step"
    )


def _is_the_models(program: Program, no_sync: ast.Call) -> bool:
    """Not of a library whose optimizers know of it, such as Accelerate's."""
    return not (program.qualified(no_sync.func) or "").startswith(("accelerate.", "lightning.", "deepspeed."))


def _unknown_step(program: Program, inside: list[ast.Call]) -> ast.Call | None:
    """The step, behind a backward, of what the same function tells to forget gradients: an optimizer is told
    so, a schedule has none."""
    backward = next((each for each in inside if last_name(each.func) == "backward"), None)
    for call in inside:
        stepping = call.func.value if isinstance(call.func, ast.Attribute) else None
        if backward is None or stepping is None or last_name(call.func) != "step":
            continue
        if program.qualified(call.func) is not None or call.lineno <= backward.lineno:
            continue
        written = ast.dump(stepping)
        for each in file_of(call).calls_of.get("zero_grad", ()):
            if (
                isinstance(each.func, ast.Attribute)
                and ast.dump(each.func.value) == written
                and scope_of(each) is scope_of(call)
            ):
                return call
    return None


def _averages(program: Program) -> bool:
    """Whether a program may average models or gradients by itself, as local SGD does.

    A reduction of figures is none: where the function that is called, and the one that calls it, speak of no
    parameters and gradients.
    """
    words = ("average", "reduce", "local_sgd", "localsgd")
    for file in program.files:
        for name, calls in file.calls_of.items():
            if any(word in name.lower() for word in words):
                for call in calls:
                    if _may_average(program, call):
                        return True
    return False


def _may_average(program: Program, call: ast.Call) -> bool:
    called = program.value(call.func)
    if isinstance(called, External) and called.name.startswith("torch.optim."):
        return False  # ReduceLROnPlateau.
    outer = scope_of(call).function
    places: list[ast.AST] = [file_of(call).tree if outer is None else outer.node]
    if isinstance(called, Defined):
        places.append(called.node)
    elif not (isinstance(called, External) and called.name.startswith("torch.distributed.")):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and node.attr in _OF_THE_MODEL
        and program.qualified(node) != "torch.utils.data"
        for place in places
        for node in ast.walk(place)
    )


_OF_THE_MODEL = frozenset({"grad", "data", "parameters", "named_parameters", "state_dict"})
"""What is reduced where models are averaged."""


def _is_backward_alone(program: Program, call: ast.Call, inside: list[ast.Call]) -> bool:
    """Whether all that stands in a DDP model's no_sync() is backward of a loss that is made before."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or not may_be(program, owner, DDP) or not inside:
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


RULES = (
    gradients_are_unscaled_before_they_are_clipped,
    sharded_gradients_are_clipped_together,
    steps_use_synchronised_gradients,
)
