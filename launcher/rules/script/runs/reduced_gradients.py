"""The gradients of a job's ranks, as they run: whether anybody reduces them, and how often they are sent."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import CallMade
from launcher.program.execution.ranks import RankRun
from launcher.program.values import INIT_PROCESS_GROUP
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import RankRuns, loops_around
from launcher.rules.script.steps.accumulation import gradients_sent_each_time, may_hold_gradients_back
from launcher.rules.script.steps.reductions import HARMLESS, REDUCING

_WRAPPERS = ("torch.nn.parallel.DistributedDataParallel", "accelerate.Accelerator")
_OTHERS = ("deepspeed.", "megatron.", "apex.", "fairscale.", "horovod.")
"""What gathers the gradients of micro-batches in a way of its own."""
_SCHEDULES = re.compile(r"lr_scheduler|sched|warmup|profil|ema", re.IGNORECASE)


@finds(Stage.SCRIPT, ddp.ACCUMULATION_OR_CLIPPING_WRONG)
def gradients_are_sent_once_a_step(runs: RankRuns) -> Iterator[Finding]:
    """An optimizer that steps once in several backward passes of this job, of which each sends all gradients.

    The result is the same, and the time of all reductions but the last is lost (informational). Silent where
    anything is called that may hold gradients back, and with FSDP.

    Bad: `scaler(loss, optimizer, update=(step + 1) % args.update_freq == 0)` with `--update_freq 8`. Good:
    all but the last of a window under `with model.no_sync():`. Source: torch's notes on DDP.
    """
    first = runs.first
    if first is None or first.group is None:
        return
    if next(first.calls(*_WRAPPERS), None) is None or may_hold_gradients_back(runs.program):
        return
    if any(each.name.startswith(_OTHERS) for each in first.events):
        return
    found = next(_rare_steps(first), None)
    if found is not None:
        yield gradients_sent_each_time(*(each.node for each in found))


_COMMUNICATING = re.compile(
    r"torch\.distributed\.(?!barrier|is_|get_|init_|destroy_|new_group|constants)"
    r"|torch\.nn\.(parallel\.)?DataParallel"
)
"""What may bring the gradients or the weights of ranks together, or uses all GPUs itself."""


@finds(Stage.SCRIPT, ddp.GRADIENTS_NOT_REDUCED)
def ranks_train_one_model(runs: RankRuns) -> Iterator[Finding]:
    """A process group, an optimizer that steps on each rank, and nothing that wraps the model in this job.

    Each rank trains a model of its own, and the one that is saved is one rank's alone. Silent where a library
    has a part in it, and where anything is called that may reduce: by its name, or by any collective.

    Bad: `if cfg["DDP"]: model = DDP(model)` where the configuration says no, in a job of four ranks. Good:
    the same by `dist.is_initialized()`. Source: torch's DDP documentation.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or runs.by_libraries:
        return
    groups = (first.group, neighbour.group)
    if not all(each and each.is_sure and each.name == INIT_PROCESS_GROUP for each in groups):
        return
    if runs.may_call(REDUCING) or any(_may_reduce(each) for run in runs.runs for each in run.events):
        return
    trained = [
        next((each for each in run.calls("*.backward") if each.is_sure and loops_around(each)), None)
        for run in (first, neighbour)
    ]
    steps = (each for each in first.calls("*.step") if each.name.startswith("torch.optim.") and each.is_sure)
    if trained[0] is None or trained[1] is None or not any(map(loops_around, steps)):
        return
    wrappers = [call for call, _ in runs.program.calls(_WRAPPERS[0])]
    yield finding_at(
        ddp.GRADIENTS_NOT_REDUCED,
        trained[0].node,
        f"nobody reduces the gradients that this makes in this job: each of the {runs.world_size} ranks "
        "trains a model of its own, and what is saved is one rank's alone",
        related=[
            *(related_at(each, "no rank comes to this wrapper") for each in wrappers[:1]),
            *(one for each in wrappers[:1] for one in runs.tests_against(each)),
        ],
    )


def _may_reduce(event: CallMade) -> bool:
    """Whether a call may bring the gradients or the weights of ranks together."""
    last = event.name.rpartition(".")[2]
    by_name = not event.name.startswith("torch.cuda.") and not HARMLESS.fullmatch(last)
    return bool(_COMMUNICATING.match(event.name) or (by_name and REDUCING.search(last.lower())))


def _rare_steps(run: RankRun) -> Iterator[tuple[CallMade, CallMade]]:
    """The backward passes of which several come to one step, each with that step."""
    passes: list[CallMade] = []
    for event in run.events:
        if event.name.endswith(".backward") and loops_around(event):
            passes.append(event)
        elif passes and event.name.endswith(".step") and not _SCHEDULES.search(_written(event)):
            last = passes[-1]
            is_inner = last.turns > 1 and loops_around(last) > loops_around(event) > 0
            if (event.period > max(1, last.period) and loops_around(event)) or is_inner:
                yield last, event
            passes = []


def _written(event: CallMade) -> str:
    return f"{event.name} {ast.unparse(event.node.func)}"


GRADIENT_RUN_RULES = (gradients_are_sent_once_a_step, ranks_train_one_model)
