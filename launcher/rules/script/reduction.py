"""Gradients that nobody reduces or applies: a bare model in a process group, an engine never stepped."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.script.finding import found, note
from launcher.scripts.distributed import GROUP
from launcher.scripts.participants import Participants
from launcher.scripts.program import Program
from launcher.scripts.scopes import ancestors, scope_of
from launcher.scripts.values import Defined, External, Made

_REDUCING = (
    "ddp",
    "parallel",
    "fsdp",
    "shard",
    "zero",
    "deepspeed",
    "prepare",
    "pipeline",
    "horovod",
    "hvd",
    "colossal",
    "bagua",
    "strategy",
    "replicate",
    "distribute",
    "average",
    "sync",
    "rpc",
    "comm_hook",
    "register_hook",
    "setup",
    "send",
    "recv",
    "gossip",
    "apex",
    "grad",
)
"""In the names of what may reduce gradients, or of what shares a model otherwise: one of these, and nothing
is said."""
_HARMLESS = frozenset(
    {
        "DistributedSampler",
        "set_epoch",
        "synchronize",
        "is_distributed",
        "zero_grad",
        "zero_",
        "zeros",
        "zeros_like",
        "no_grad",
        "requires_grad_",
        "enable_grad",
        "set_grad_enabled",
        "clip_grad_norm_",
        "clip_grad_value_",
        "GradScaler",
        "setup_logging",
        "convert_sync_batchnorm",
        "SyncBatchNorm",
        "setdefault",
    }
)
"""Names that hold a hint, and are none."""
_COLLECTIVES = frozenset(
    {"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor", "all_gather", "broadcast"}
)


@finds(Stage.SCRIPT, ddp.GRADIENTS_NOT_REDUCED)
def gradients_are_reduced(program: Program) -> Iterator[Finding]:
    """A process group and a DistributedSampler, and a training step whose gradients nobody reduces.

    Each rank then trains a model of its own on its part of the data, and the one that is saved has seen a
    fraction of it. Silent where anything in the program may reduce: a wrapper, a collective near `.grad`, a
    function whose name hints at it, or a file that could not be read.

    Bad: `init_process_group`, `DistributedSampler`, `loss.backward(); optimizer.step()` on the bare model.
    Good: `model = DistributedDataParallel(model)`. Source: torch's DDP documentation.
    """
    groups = [call for call, _ in program.calls(GROUP)]
    samplers = [call for call, _ in program.calls("torch.utils.data.DistributedSampler")]
    if not groups or not samplers or program.unread or _may_reduce(program):
        return
    for file in program.files:
        for call in file.calls_of.get("backward", ()):
            scope = scope_of(call)
            steps = [each for each in file.calls_of.get("step", ()) if scope_of(each) is scope]
            stepped = [each for each in steps if _optimizes(program, each)]
            if stepped and Participants(program).who(call) is True:
                yield found(
                    ddp.GRADIENTS_NOT_REDUCED,
                    call,
                    "nobody reduces the gradients that this makes: each rank trains a model of its own on "
                    "its part of the data, and what is saved has seen that part alone",
                    related=[note(groups[0], "the process group"), note(samplers[0], "the data is divided")],
                )
                return


def _may_reduce(program: Program) -> bool:
    for file in program.files:
        if file.stars:
            return True
        for name, calls in file.calls_of.items():
            lowered = name.lower()
            if name in _HARMLESS:
                continue
            if name in _COLLECTIVES and any(_near_gradients(each) for each in calls):
                return True
            if any(each in lowered for each in _REDUCING) and not all(
                _is_of_torch(program, each) for each in calls
            ):
                return True
    return False


def _is_of_torch(program: Program, call: ast.Call) -> bool:
    """Whether a call is one of torch's, or of the program itself, that reduces nothing by its name alone."""
    value = program.value(call.func)
    if isinstance(value, Defined | Made):
        return True
    name = value.name if isinstance(value, External) else ""
    return name.startswith("torch.cuda.") or name in (GROUP, "torch.distributed.destroy_process_group")


def _near_gradients(call: ast.Call) -> bool:
    """Whether the function of a collective also speaks of gradients, parameters or states."""
    top: ast.AST = call
    for top in ancestors(call):
        if isinstance(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            break
    words = {"grad", "parameters", "named_parameters", "state_dict", "param_groups", "data"}
    if isinstance(top, ast.Module):
        return any(isinstance(each, ast.Attribute) and each.attr in words for each in ast.walk(call))
    loops = any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in ast.walk(top))
    place: ast.AST = call if loops else top
    return any(isinstance(each, ast.Attribute) and each.attr in words for each in ast.walk(place))


def _optimizes(program: Program, call: ast.Call) -> bool:
    name = program.qualified(call.func) or ""
    return name.startswith("torch.optim.") and "lr_scheduler" not in name


@finds(Stage.SCRIPT, ddp.ENGINE_NEVER_STEPPED)
def engines_are_stepped(program: Program) -> Iterator[Finding]:
    """A DeepSpeed engine whose `backward` is called and whose `step` is not.

    The gradients accumulate and no parameter ever changes; `optimizer.step()` in its place skips the loss
    scale, the clipping and the zeroing that the engine does.

    Bad: `engine.backward(loss); optimizer.step()`. Good: `engine.backward(loss); engine.step()`. Source:
    what accelerate's DeepSpeedEngineWrapper writes of the engine's step.
    """
    engine = "deepspeed.DeepSpeedEngine"
    backward = [call for call, _ in program.calls(f"{engine}.backward")]
    if not backward or program.unread:
        return
    for file in program.files:
        if any(name in file.calls_of for name in ("train_batch", "step_and_zero_grad")):
            return
        for call in file.calls_of.get("step", ()):
            name = program.qualified(call.func)
            if name is None or name.startswith(engine):
                if name is None and _is_known(program, call):
                    continue
                return
    yield found(
        ddp.ENGINE_NEVER_STEPPED,
        backward[0],
        "the DeepSpeed engine runs backward here, and its step() is never called: no parameter changes as "
        "the engine would change it",
    )


def _is_known(program: Program, call: ast.Call) -> bool:
    """Whether a step is one of an object of the program itself."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return isinstance(program.value(owner), Made)


RULES = (gradients_are_reduced, engines_are_stepped)
