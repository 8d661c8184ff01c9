"""What communicates: the collectives of the libraries of distributed training, and their groups.

A collective is run by every rank of its group, or the ranks that run it wait. Point-to-point calls (send,
recv, isend, irecv) are none and do not stand here, nor is anything that waits for no other rank.
"""

from __future__ import annotations

from dataclasses import dataclass

WORLD = frozenset({"torch.distributed.group.WORLD", "torch.distributed.GroupMember.WORLD"})
"""The names of the group of all ranks."""

NEW_GROUPS = frozenset({"torch.distributed.new_group", "deepspeed.comm.new_group"})
"""What makes a group of the ranks that are its first argument."""

GROUP_KEYWORDS = frozenset(
    {"group", "process_group", "pg", "groups", "replica_groups", "process_set", "device_mesh", "mesh"}
)
"""The keywords by which a collective is given its group."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A call that every rank of a group must make.

    `does` is its short name. `group` is the position of the group among its arguments, None where it is
    given by keyword only. `gathers_state` says that it collects or writes a checkpoint.
    """

    name: str
    does: str
    group: int | None = None
    gathers_state: bool = False


_TORCH = {
    "barrier": 0,
    "monitored_barrier": 0,
    "all_reduce": 2,
    "all_reduce_coalesced": 2,
    "reduce": 3,
    "broadcast": 2,
    "broadcast_object_list": 2,
    "all_gather": 2,
    "all_gather_into_tensor": 2,
    "_all_gather_base": 2,
    "all_gather_object": 2,
    "all_gather_coalesced": 2,
    "gather": 3,
    "gather_object": 3,
    "scatter": 3,
    "scatter_object_list": 3,
    "reduce_scatter": 3,
    "reduce_scatter_tensor": 3,
    "_reduce_scatter_base": 3,
    "all_to_all": 2,
    "all_to_all_single": 4,
}
"""The collectives of torch.distributed, also DeepSpeed's and SMDDP's, and where their group stands."""

_LIKE_TORCH = ("torch.distributed", "deepspeed.comm", "smdistributed.dataparallel.torch.distributed")

_OTHERS: dict[str, tuple[str, ...]] = {
    "torch.distributed": ("new_group", "new_subgroups", "new_subgroups_by_enumeration"),
    "deepspeed.comm": ("new_group",),
    "horovod.torch": (
        "allreduce",
        "allreduce_",
        "allreduce_async",
        "allreduce_async_",
        "grouped_allreduce",
        "grouped_allreduce_",
        "allgather",
        "allgather_async",
        "allgather_object",
        "broadcast",
        "broadcast_",
        "broadcast_async",
        "broadcast_object",
        "broadcast_parameters",
        "broadcast_optimizer_state",
        "alltoall",
        "reducescatter",
        "barrier",
    ),
    "torch_xla.xla_model": (
        "rendezvous",
        "all_reduce",
        "all_gather",
        "all_to_all",
        "reduce_scatter",
        "collective_broadcast",
        "mesh_reduce",
        "reduce_gradients",
        "optimizer_step",
    ),
    "smdistributed.modelparallel.torch": (
        "barrier",
        "dp_barrier",
        "pp_barrier",
        "tp_barrier",
        "rdp_barrier",
        "mp_barrier",
        "allgather",
        "broadcast",
    ),
    "mpi4py.MPI.COMM_WORLD": (
        "barrier",
        "Barrier",
        "bcast",
        "Bcast",
        "gather",
        "Gather",
        "allgather",
        "Allgather",
        "reduce",
        "Reduce",
        "allreduce",
        "Allreduce",
        "scatter",
        "Scatter",
        "alltoall",
        "Alltoall",
    ),
    "accelerate.Accelerator": (
        "wait_for_everyone",
        "gather",
        "gather_for_metrics",
        "reduce",
        "pad_across_processes",
    ),
    "accelerate.PartialState": ("wait_for_everyone",),
    "accelerate.utils": (
        "wait_for_everyone",
        "gather",
        "gather_object",
        "broadcast",
        "broadcast_object_list",
        "reduce",
        "pad_across_processes",
    ),
    "lightning.fabric.Fabric": ("barrier", "all_gather", "all_reduce", "broadcast"),
    "lightning.pytorch.LightningModule": ("all_gather",),
    "lightning.pytorch.Trainer.strategy": ("barrier", "broadcast", "all_gather", "reduce"),
    "lightning.pytorch.LightningModule.trainer.strategy": ("barrier", "broadcast", "all_gather", "reduce"),
    "deepspeed.DeepSpeedEngine": ("backward", "step"),
    "torch.nn.parallel": ("DistributedDataParallel",),
    "torch.distributed.nn.functional": tuple(_TORCH),
    "torch.distributed.nn": tuple(_TORCH),
    "ignite.distributed": ("barrier", "all_reduce", "all_gather", "broadcast"),
}

_STATE: dict[str, tuple[str, ...]] = {
    "torch.distributed.checkpoint": ("save", "async_save", "load", "save_state_dict", "load_state_dict"),
    "torch.distributed.checkpoint.state_dict": (
        "get_state_dict",
        "get_model_state_dict",
        "get_optimizer_state_dict",
    ),
    "torch.distributed.fsdp.FullyShardedDataParallel": (
        "state_dict",
        "optim_state_dict",
        "full_optim_state_dict",
        "sharded_optim_state_dict",
        "shard_full_optim_state_dict",
        "scatter_full_optim_state_dict",
    ),
    "torch.distributed.optim.ZeroRedundancyOptimizer": ("consolidate_state_dict",),
    "deepspeed.DeepSpeedEngine": (
        "save_checkpoint",
        "save_16bit_model",
        "save_fp16_model",
        "load_checkpoint",
    ),
    "smdistributed.modelparallel.torch.DistributedModel": ("state_dict", "local_state_dict"),
    "smdistributed.modelparallel.torch.DistributedOptimizer": ("state_dict", "local_state_dict"),
    "smdistributed.modelparallel.torch": ("save_checkpoint",),
    "torch_xla.xla_model": ("save",),
    "lightning.pytorch.Trainer": ("save_checkpoint",),
    "lightning.pytorch.LightningModule.trainer": ("save_checkpoint",),
    "lightning.fabric.Fabric": ("save", "load"),
}

_GROUPS = {"torch.distributed.nn.functional": _TORCH, "torch.distributed.nn": _TORCH}

COLLECTIVES: dict[str, Collective] = {
    **{
        f"{library}.{name}": Collective(f"{library}.{name}", name, group)
        for library in _LIKE_TORCH
        for name, group in _TORCH.items()
    },
    **{
        f"{library}.{name}": Collective(f"{library}.{name}", name, _GROUPS.get(library, {}).get(name))
        for library, names in _OTHERS.items()
        for name in names
    },
    **{
        f"{library}.{name}": Collective(f"{library}.{name}", name, gathers_state=True)
        for library, names in _STATE.items()
        for name in names
    },
}
"""All of them, by their one dotted name.

Sources: the documentation of torch.distributed (also its checkpoint and FSDP), DeepSpeed, Horovod,
PyTorch/XLA, the SageMaker model parallel library, mpi4py, Accelerate and Lightning. Not here, as they wait
for nobody where the model is merely replicated: Accelerate's get_state_dict, save_state and unwrap_model.
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

LAST_NAMES = frozenset(name.rpartition(".")[2] for name in COLLECTIVES)
"""By which a call may be one."""
