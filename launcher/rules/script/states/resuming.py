"""What a job that starts again goes on from: whether the program loads what it has saved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import checkpoints
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.program.dataflow import (
    argument_of,
    origins,
)
from launcher.program.index import (
    BindingKind,
    ancestors_in_function,
    class_of,
    file_of,
    last_name,
    scope_of,
)
from launcher.program.program import Program
from launcher.program.surroundings.saves import (
    SAVED_TO,
)
from launcher.program.values import (
    Constant,
    Defined,
)
from launcher.rules.script.findings import (
    JobRun,
    ScriptSubject,
    finding_at,
    may_run,
    related_at,
)
from launcher.rules.script.states.writers import texts_in

_LOADERS = re.compile("load_(state|model|ckpt|weights)|restore|resum|checkpoint|snapshot")
_TRAINERS = (
    *(f"transformers.{name}.train" for name in ("Trainer", "Seq2SeqTrainer")),
    *(f"trl.{name}.train" for name in ("SFTTrainer", "DPOTrainer", "RewardTrainer")),
    "lightning.pytorch.Trainer.fit",
)
"""What trains for a script, from the beginning unless it is told where to resume."""

_CHANNELS = ("SM_CHANNEL", "/opt/ml/input")
_OTHER_LOADS = ("json.", "yaml.", "numpy.", "csv.", "toml")


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def what_restarts_loads_a_checkpoint(subject: ScriptSubject) -> Iterator[Finding]:
    """With a job on spot capacity or with retries: a program with a training loop that loads nothing.

    After an interruption it starts from the beginning, though its checkpoints are there. Silent where
    anything in the program may load or resume, by its name or by an argument's.

    Bad: a loop that only saves, or `trainer.train()`. Good: `torch.load` of the newest checkpoint before it.
    Source: developer guide, model-managed-spot-training.
    """
    job, program = subject.job, subject.program
    spot = job.resources.capacity.kind == "spot"
    if not spot and not job.limits.max_retries:
        return
    if subject.plan.checkpoints is None or program.unread or _may_load(subject):
        return
    why = (
        "`capacity: spot` may be interrupted"
        if spot
        else f"`max_retries: {job.limits.max_retries}` starts again"
    )
    trained = (call for file in program.files for call in file.calls_of.get("backward", ()))
    first = next(trained, None) or next((call for call, _ in program.calls(*_TRAINERS)), None)
    if first is not None:
        yield finding_at(
            checkpoints.NOTHING_TO_RESUME_FROM,
            first,
            f"{why}, and nothing in this program loads a checkpoint: it would train from the beginning, "
            "and what was done until then is paid for twice",
            remedy=f"Load the newest checkpoint of {subject.plan.checkpoints.local_path} at the start, "
            "with the states of model, optimizer and scheduler.",
        )


def _may_load(subject: ScriptSubject) -> bool:
    """Whether anything that may run loads a checkpoint: weights to begin with, from a channel, are none."""
    program, run = subject.program, JobRun(subject)
    for file in program.files:
        if file.stars:
            return True
        for call in file.calls:
            name = (last_name(call.func) or "").lower()
            asked = [
                each.value
                for each in call.keywords
                if (each.arg or "").lower().startswith(("resume", "ckpt"))
            ]
            if name == "train" and program.qualified(call.func) in _TRAINERS:
                asked += call.args[:1]
            if not all(_is_nothing(program, each) for each in asked):
                return True
            if _loads_by_name(program, call, name) and may_run(run, call):
                return True
    return False


def _loads_by_name(program: Program, call: ast.Call, name: str) -> bool:
    if name == "load" and not (program.qualified(call.func) or "").startswith(_OTHER_LOADS):
        path = argument_of(call, "f", 0)
        return path is None or not _is_of_a_channel(program, path)
    if name.startswith("load_state"):
        state = argument_of(call, "state_dict", 0)
        found = () if state is None else origins(program, state)
        return not found or not all(
            isinstance(each, ast.Call) and last_name(each.func) == "load" for each in found
        )
    whole = program.qualified(call.func) or ""
    if name.startswith("gradient_") or whole in SAVED_TO or whole.startswith("torch.utils.checkpoint"):
        return False
    defined = isinstance(program.value(call.func), Defined)
    return not defined and bool(_LOADERS.search(name)) and not name.startswith("save")


def _is_nothing(program: Program, value: ast.expr) -> bool:
    return program.value(value) in (Constant(None), Constant(False))


def _is_of_a_channel(program: Program, path: ast.expr) -> bool:
    """Whether a path leads into the job's inputs, as far as it is written."""
    return any(word in text for text in texts_in(program, path) for word in _CHANNELS)


@finds(Stage.SCRIPT, checkpoints.NOTHING_TO_RESUME_FROM)
def states_are_loaded_into_what_is_made(program: Program) -> Iterator[Finding]:
    """`optimizer.load_state_dict(...)` before the same function makes the optimizer.

    Only a run that resumes comes to it, and ends there: no checkpoint of this program can be resumed from.
    Silent in loops, and where anything else may have made it before.

    Bad: `opt.load_state_dict(state["opt"])`, then `opt = AdamW(...)`. Good: the other way round.

    Source: Python's execution model, binding of names.
    """
    for file in program.files:
        for call in file.calls_of.get("load_state_dict", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            made = _made_behind(call, owner) if isinstance(owner, ast.Name | ast.Attribute) else None
            if owner is not None and made is not None:
                yield finding_at(
                    checkpoints.NOTHING_TO_RESUME_FROM,
                    call,
                    f"`{ast.unparse(owner)}` is made only behind this: a run that resumes ends here with an "
                    "error, and none can",
                    severity=Severity.WARNING,
                    related=[related_at(made, "made here")],
                    remedy="Make it first, and load its state then.",
                )


def _made_behind(call: ast.Call, owner: ast.Name | ast.Attribute) -> ast.AST | None:
    """What first makes an object whose state is loaded, where all that does stands behind in one function."""
    scope = scope_of(call)
    if isinstance(owner, ast.Name):
        bindings = scope.bindings.get(owner.id, []) if scope.holder_of(owner.id) is scope else []
    elif isinstance(owner.value, ast.Name) and owner.value.id == "self":
        bindings = list(file_of(call).set_attributes.get(owner.attr, ()))
        within = class_of(scope.node)
        if within is None or within.bases or owner.attr in file_of(call).scopes[within].bindings:
            return None
    else:
        return None
    nodes = [each.node for each in bindings]
    looped = any(isinstance(each, ast.For | ast.While) for each in ancestors_in_function(call))
    behind = all(
        scope_of(each) is scope and getattr(each, "lineno", 0) > (call.end_lineno or 0) for each in nodes
    )
    assigned = all(each.kind is BindingKind.ASSIGNED for each in bindings)
    return nodes[0] if nodes and behind and assigned and not looped else None


RESUMING_RULES = (states_are_loaded_into_what_is_made,)

RESUMING_JOB_RULES = (what_restarts_loads_a_checkpoint,)
