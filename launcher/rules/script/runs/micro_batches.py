"""Gradients of several micro-batches, as a rank of a job sends them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import CallMade
from launcher.program.execution.ranks import RankRun
from launcher.rules.script.runs.rank_runs import RankRuns, loops_around
from launcher.rules.script.steps.accumulation import gradients_sent_each_time, may_hold_gradients_back

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
