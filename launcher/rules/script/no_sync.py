"""Gradients that stay on their rank: an optimizer's step, or backward alone, inside `no_sync()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.averaging import averages_models
from launcher.scripts.distributed import DDP
from launcher.scripts.origins import may_be
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, file_of, last_name, parent_of, scope_of


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
            if step is not None and not averages_models(program):
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


def _is_backward_alone(program: Program, call: ast.Call, inside: list[ast.Call]) -> bool:
    """Whether all that stands in a DDP model's no_sync() is backward of a loss that is made before."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or not may_be(program, owner, DDP) or not inside or _has_its_forward(owner, call):
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
        for each in ast.walk(statement)
    )


RULES = (steps_use_synchronised_gradients,)
