"""Whether a call of a collective communicates at all, by its arguments and by the model that it is for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument
from launcher.scripts.collectives import COMMUNICATES_WITH, Collective
from launcher.scripts.values import Constant, Instance

if TYPE_CHECKING:
    from launcher.scripts.program import Program

_OPTIONS = "torch.distributed.checkpoint.state_dict.StateDictOptions"


def communicates(program: Program, call: ast.Call, collective: Collective) -> bool:
    """Whether a call surely needs the others: nothing tells it to do without them (`no_dist=True`)."""
    given = {each.arg: program.value(each.value) for each in call.keywords if each.arg}
    if collective.asked_by is not None and given.get(collective.asked_by) != Constant(True):
        return False
    if collective.name.startswith("torch.distributed.checkpoint.state_dict.") and not _shards(program, call):
        return False
    return all(
        given.get(name, Constant(needs)) == Constant(needs) for name, needs in COMMUNICATES_WITH.items()
    )


def _shards(program: Program, call: ast.Call) -> bool:
    """Whether get_model_state_dict and its like collect shards.

    Of FSDP 1 they always do; of FSDP 2 where the full state is asked for; of a replicated model never.
    Source: torch/distributed/checkpoint/state_dict.py of torch 2.13.
    """
    if any(program.calls("torch.distributed.fsdp.FullyShardedDataParallel")):
        return True
    options = argument(call, "options")
    value = None if options is None else program.value(options)
    if not isinstance(value, Instance) or value.name != _OPTIONS:
        return False
    full = argument(value.call, "full_state_dict", 0)
    return (
        full is not None
        and program.value(full) == Constant(True)
        and any(program.calls("torch.distributed.fsdp.fully_shard"))
    )
