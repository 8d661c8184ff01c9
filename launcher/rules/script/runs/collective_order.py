"""Whether the ranks of a job call the same collectives in the same order, as they run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from launcher.failure_modes import ddp
from launcher.failure_modes.model import Finding, Stage
from launcher.failure_modes.registry import finds
from launcher.program.execution.objects import CallMade, Object, Symbol
from launcher.program.execution.ranks import RankRun
from launcher.program.execution.written_trees import place_of
from launcher.program.index import ancestors
from launcher.rules.script.findings import finding_at, related_at
from launcher.rules.script.runs.rank_runs import RankRuns, is_asked_of_ranks, is_come_to_later

_GROUPS = {
    **dict.fromkeys(("barrier", "monitored_barrier"), 0),
    **dict.fromkeys(("all_reduce", "broadcast", "broadcast_object_list", "all_to_all"), 2),
    **dict.fromkeys(("all_gather", "all_gather_into_tensor", "all_gather_object"), 2),
    **dict.fromkeys(("reduce", "reduce_scatter", "reduce_scatter_tensor"), 3),
    **dict.fromkeys(("gather", "scatter", "gather_object", "scatter_object_list"), 3),
    "all_to_all_single": 4,
}
"""The collectives of torch.distributed, and the place of the group among the arguments of each."""
_COLLECTIVES = {f"torch.distributed.{name}": place for name, place in _GROUPS.items()}


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def ranks_call_the_same_collectives(runs: RankRuns) -> Iterator[Finding]:
    """A collective that one rank calls and another does not, whatever way the program takes to it.

    The ranks that call it wait for the others until the timeout. Silent about those of a group of their own,
    behind tests that nobody can tell and that may be others on each rank, and where an exception ends a rank,
    or not all that it does was followed.

    Bad: a handler in a table that rank 0 alone calls, and that ends with `dist.barrier()`. Good: every rank
    calls it. Source: the sources of DDP004.
    """
    first = runs.first
    for other in (runs.neighbour, runs.next_host):
        if first is None or other is None or first.group is None or first.ended_by or other.ended_by:
            continue
        if first.skips_calls or other.skips_calls:
            continue
        place = _first_difference(first, other)
        if place is not None:
            event, rank = place
            alone = "rank 0 calls" if rank == 0 else f"rank {rank} calls"
            waiting = other.world.rank if rank == 0 else 0
            yield finding_at(
                ddp.COLLECTIVE_UNDER_RANK_GUARD,
                event.node,
                f"{alone} {event.name.rpartition('.')[2]} here in this job, and rank {waiting} comes to no "
                "such call: those that do wait until the timeout",
                related=[related_at(each, "called from here") for each in event.callers[-1:]],
            )
            return


def _first_difference(one: RankRun, other: RankRun) -> tuple[CallMade, int] | None:
    """The first collective that one of two ranks calls, and the other has none of its kind left or at its
    place; and which rank calls it."""
    mine, theirs = list(_collectives(one)), list(_collectives(other))
    if len(mine) == len(theirs):
        return None
    # A test that is open on one of them, and was found out on the other: nobody knows that they differ.
    tests = {place_of(test) for event in (*mine, *theirs) for test in event.tests}
    if any((one.truths.get(each) is None) != (other.truths.get(each) is None) for each in tests):
        return None
    for left, right in zip_longest(mine, theirs):
        if left is not None and right is not None and left.name == right.name:
            continue
        longer = left if len(mine) > len(theirs) else right
        return None if longer is None else (longer, (one if longer is left else other).world.rank)
    return None


def _collectives(run: RankRun) -> Iterator[CallMade]:
    for event in run.calls(*_COLLECTIVES):
        own_group = event.argument("group", _COLLECTIVES[event.name])
        asked = any(is_asked_of_ranks(each) for each in event.tests)
        if own_group is None and not asked and not any(isinstance(each, ast.Try) for each in event.tests):
            yield event


_WRAPPED = "torch.nn.parallel.DistributedDataParallel()"
_WITH_BUFFERS = re.compile(
    r"torch\.nn\.(BatchNorm\dd|SyncBatchNorm|Module\(\)\.register_buffer|utils\.(\w+\.)?spectral_norm)|"
    r"torchvision\.models\.((\w+\.)?(wide_)?resne[xt]\w*|densenet\w*|mobilenet\w*|efficientnet\w*|regnet\w*|"
    r"shufflenet\w*|mnasnet\w*|googlenet|inception\w*|vgg\d+_bn)"
)
"""What has buffers: the statistics of batches, and what a module registers."""


_WITHOUT_GRADIENTS = re.compile(r"\b(no_grad|inference_mode|set_grad_enabled)\b")


def _is_out_of_step(run: RankRun, forward: CallMade, theirs: set[ast.Call]) -> bool:
    """Whether a rank that makes a forward pass alone calls another collective before its next one that all
    make, or makes one more broadcast than they do, as it takes gradients."""
    calls = [place_of(each) for each in (forward.node, *forward.callers)]
    around = [outer for call in calls for outer in ancestors(call)]
    heads = [item.context_expr for each in around if isinstance(each, ast.With) for item in each.items]
    heads += [each for outer in around if isinstance(outer, ast.FunctionDef) for each in outer.decorator_list]
    if not any(_WITHOUT_GRADIENTS.search(ast.unparse(each)) for each in heads):
        return True
    for start in (number for number, each in enumerate(run.events) if each.node is forward.node):
        for each in run.events[start + 1 :]:
            if each.name == _WRAPPED and each.node in theirs:
                break
            if each.name in _COLLECTIVES:
                return True
    return False


def _buffer_of(part: object, registering: dict[int, CallMade], deepest: int = 12) -> CallMade | None:
    """The call that makes a buffer of a module, or of one of those that it is made of."""
    made = part.made_by if isinstance(part, Symbol) else None
    if id(part) in registering:
        return registering[id(part)]
    if made is not None and _WITH_BUFFERS.fullmatch(made.name):
        return None if made.argument("track_running_stats", 4) is False else made
    inner: Iterable[object] = ()
    if isinstance(part, Object):
        inner = [each for name, each in part.attributes.items() if not name.startswith("__")]
    elif isinstance(part, dict):
        inner = part.values()
    elif isinstance(part, list | tuple):
        inner = part
    elif made is not None:
        inner = (made.owner, *made.args, *made.keywords.values())
    found = (_buffer_of(each, registering, deepest - 1) for each in inner if deepest)
    return next((each for each in found if each is not None), None)


@finds(Stage.SCRIPT, ddp.COLLECTIVE_UNDER_RANK_GUARD)
def ranks_run_the_wrapped_model_together(runs: RankRuns) -> Iterator[Finding]:
    """A forward pass of a wrapped model that one rank makes alone, as rank 0 does that validates.

    The first one after a step broadcasts the model's buffers, those of BatchNorm for one, also without
    gradients. The others never join that broadcast: their next collective is taken for it. Silent where that
    is the broadcast of their next forward pass, of which rank 0 then makes none: behind `no_grad()`, with no
    other collective between.

    Bad: `if rank == 0: validate(model)`. Good: `if rank == 0: validate(model.module)`, or every rank
    validates its part. Source: torch/nn/parallel/distributed.py, `will_sync_module_buffers`; run with two
    processes and gloo on torch 2.13.
    """
    first, neighbour = runs.first, runs.neighbour
    if first is None or neighbour is None or not (runs.are_launched or runs.processes > 1):
        return
    theirs = {each.node for each in neighbour.calls(_WRAPPED)}
    mine = {each.node: each for each in first.calls(_WRAPPED) if each.is_sure or is_come_to_later(each)}
    alone = [
        each for node, each in mine.items() if node not in theirs and _is_out_of_step(first, each, theirs)
    ]
    # What has a call of its own on the other ranks is made by all, at two places.
    if not alone or not theirs or theirs.difference(each.node for each in first.calls(_WRAPPED)):
        return
    wrapping = [*first.calls(_WRAPPED.removesuffix("()"))]
    if any(each.argument("broadcast_buffers", 4) is False for each in wrapping):
        return
    registering = {
        id(each.owner): each for each in first.events if each.name.endswith("Module().register_buffer")
    }
    found = ((each, _buffer_of(each.owner, registering)) for each in alone)
    event, buffered = next(((each, buffer) for each, buffer in found if buffer is not None), (None, None))
    if event is not None and buffered is not None:
        yield finding_at(
            ddp.COLLECTIVE_UNDER_RANK_GUARD,
            event.node,
            "rank 0 alone runs the wrapped model here, and its forward pass broadcasts the buffers to ranks "
            "that do not join: the next collectives no longer fit together, and all wait or fail",
            remedy="Run the model itself (`model.module`), or let every rank run it on its part of the data.",
            related=[
                related_at(buffered.node, "this has buffers"),
                *(related_at(each, "called from here") for each in event.callers[-1:]),
            ],
        )


ORDER_RUN_RULES = (ranks_call_the_same_collectives, ranks_run_the_wrapped_model_together)
