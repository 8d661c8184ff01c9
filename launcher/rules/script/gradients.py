"""Gradients that are clipped between backward and step: while they are scaled, or shard by shard."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Fix, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.arguments import argument
from launcher.scripts.distributed import FSDP
from launcher.scripts.edits import statement_before
from launcher.scripts.origins import may_be
from launcher.scripts.program import Program
from launcher.scripts.reaching import arms_of
from launcher.scripts.scopes import file_of, last_name, scope_of, statement_of
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


RULES = (
    gradients_are_unscaled_before_they_are_clipped,
    sharded_gradients_are_clipped_together,
)
