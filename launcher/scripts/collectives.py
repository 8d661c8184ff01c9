"""What communicates: the collectives of the libraries of distributed training, and their groups.

A collective is run by every rank of its group, or the ranks that run it wait. Point-to-point calls (send,
recv, isend, irecv) are none and do not stand here, nor is anything that waits for no other rank.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.scripts.collective_tables import ASKED, OTHERS, STATE
from launcher.scripts.names import canonical

WORLD = frozenset(
    {
        "torch.distributed.group.WORLD",
        "torch.distributed.GroupMember.WORLD",
        "horovod.torch.global_process_set",
        "smdistributed.modelparallel.torch.WORLD",
        "smdistributed.modelparallel.torch.CommGroup.WORLD",
    }
)
"""The names of the group of all ranks."""

NEW_GROUPS = frozenset({"torch.distributed.new_group", "deepspeed.comm.new_group"})
"""What makes a group of the ranks that are its first argument."""

GROUP_KEYWORDS = frozenset(
    {
        "group",
        "process_group",
        "pg",
        "parent_pg",
        "groups",
        "replicas",
        "ordinals",
        "process_set",
        "device_mesh",
        "mesh",
        "sync_dist_group",
    }
)
"""The keywords by which a collective is given its group."""

COMMUNICATES_WITH = {
    "no_dist": False,
    "use_collectives": True,
    "use_local_synchronization": False,
    "init_sync": True,
    "rank_zero_only": False,
}
"""Keywords with which a call may do without the others: what it communicates with, also by default.

DCP's no_dist and use_collectives; new_group's use_local_synchronization, with which the members alone call
it; DDP's init_sync; rank_zero_only of Lightning's log.
"""


@dataclass(frozen=True, slots=True)
class Collective:
    """A call that every rank of a group must make.

    `does` is its short name. `group` is the position of the group among its arguments, None where it is
    given by keyword only. `gathers_state` says that it collects or writes a checkpoint. `asked_by` is the
    keyword that must be True for it to communicate at all.
    """

    name: str
    does: str
    group: int | None = None
    gathers_state: bool = False
    asked_by: str | None = None


COLLECTIVES: dict[str, Collective] = {
    f"{library}.{name}": Collective(f"{library}.{name}", name, group, table is STATE)
    for table in (OTHERS, STATE)
    for library, names in table.items()
    for name, group in names.items()
} | {
    f"{library}.{name}": Collective(f"{library}.{name}", name, asked_by=keyword)
    for library, names in ASKED.items()
    for name, keyword in names.items()
}
"""All of them, by their one dotted name.

Not here, as they wait for nobody where the model is merely replicated: Accelerate's get_state_dict,
save_state, clip_grad_norm_ and unwrap_model; and DTensor's full_tensor, which does not communicate where the
tensor is replicated.
"""

BACKWARD = Collective("torch.Tensor.backward", "backward")
"""The backward pass of a loss that comes from a model of REDUCING."""

REDUCING = frozenset(
    {
        "torch.nn.parallel.DistributedDataParallel",
        "torch.distributed.fsdp.FullyShardedDataParallel",
        "smdistributed.modelparallel.torch.DistributedModel",
    }
)
"""The wrappers whose gradients are reduced in every backward pass, by all ranks."""


def last_names(modules: Iterable[str]) -> set[str]:
    """The last names by which a call may be a collective, in a program that imports these modules."""
    libraries = {canonical(each).partition(".")[0] for each in modules}
    if "torch" in libraries:
        libraries.add("smdistributed")  # torch.sagemaker is its later name.
    return {name for library, names in _LAST_NAMES.items() if library in libraries for name in names}


_LAST_NAMES: dict[str, set[str]] = {}
for _name in (*COLLECTIVES, BACKWARD.name):
    _LAST_NAMES.setdefault(_name.partition(".")[0], set()).add(_name.rpartition(".")[2])
