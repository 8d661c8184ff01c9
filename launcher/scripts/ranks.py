"""Where ranks and world sizes come from: calls and attributes of libraries, variables of launchers."""

from __future__ import annotations

from launcher.scripts.values import RankKind, RankValue, Value, WorldSize

LAST = -1
"""Stands for the highest rank, where ranks are counted from 0."""

_GLOBAL = (
    "torch.distributed.get_rank",
    "deepspeed.comm.get_rank",
    "deepspeed.DeepSpeedEngine.global_rank",
    "smdistributed.modelparallel.torch.rank",
    "smdistributed.dataparallel.torch.distributed.get_rank",
    "smdistributed.dataparallel.torch.get_rank",
    "herring.torch.distributed.get_rank",
    "horovod.torch.rank",
    "horovod.tensorflow.rank",
    "horovod.tensorflow.keras.rank",
    "torch_xla.xla_model.get_ordinal",
    "torch_xla.runtime.global_ordinal",
    "mpi4py.MPI.COMM_WORLD.Get_rank",
    "mpi4py.MPI.COMM_WORLD.rank",
    "accelerate.Accelerator.process_index",
    "accelerate.PartialState.process_index",
    "accelerate.AcceleratorState.process_index",
    "lightning.fabric.Fabric.global_rank",
    "lightning.pytorch.Trainer.global_rank",
    "lightning.pytorch.LightningModule.global_rank",
    "transformers.TrainingArguments.process_index",
    "ignite.distributed.get_rank",
)
_LOCAL = (
    "torch.distributed.get_node_local_rank",
    "deepspeed.comm.get_local_rank",
    "deepspeed.DeepSpeedEngine.local_rank",
    "smdistributed.modelparallel.torch.local_rank",
    "smdistributed.dataparallel.torch.distributed.get_local_rank",
    "smdistributed.dataparallel.torch.get_local_rank",
    "herring.torch.distributed.get_local_rank",
    "horovod.torch.local_rank",
    "horovod.tensorflow.local_rank",
    "horovod.tensorflow.keras.local_rank",
    "torch_xla.xla_model.get_local_ordinal",
    "torch_xla.runtime.local_ordinal",
    "accelerate.Accelerator.local_process_index",
    "accelerate.PartialState.local_process_index",
    "accelerate.AcceleratorState.local_process_index",
    "lightning.fabric.Fabric.local_rank",
    "lightning.pytorch.Trainer.local_rank",
    "lightning.pytorch.LightningModule.local_rank",
    "transformers.TrainingArguments.local_process_index",
    "transformers.TrainingArguments.local_rank",
    "ignite.distributed.get_local_rank",
)
_NODE = (
    "horovod.torch.cross_rank",
    "lightning.fabric.Fabric.node_rank",
    "lightning.pytorch.Trainer.node_rank",
    "ignite.distributed.get_node_rank",
)
_COORDINATE = (
    "torch.distributed.get_group_rank",
    "torch.distributed.device_mesh.DeviceMesh.get_local_rank",
    "torch.distributed.device_mesh.DeviceMesh.get_rank",
    "torch.distributed.device_mesh.init_device_mesh.get_local_rank",
    "smdistributed.modelparallel.torch.tp_rank",
    "smdistributed.modelparallel.torch.pp_rank",
    "smdistributed.modelparallel.torch.dp_rank",
    "smdistributed.modelparallel.torch.rdp_rank",
    "smdistributed.modelparallel.torch.mp_rank",
)
_WORLD = (
    "torch.distributed.get_world_size",
    "deepspeed.comm.get_world_size",
    "smdistributed.modelparallel.torch.size",
    "smdistributed.dataparallel.torch.distributed.get_world_size",
    "smdistributed.dataparallel.torch.get_world_size",
    "horovod.torch.size",
    "horovod.tensorflow.size",
    "torch_xla.xla_model.xrt_world_size",
    "torch_xla.runtime.world_size",
    "mpi4py.MPI.COMM_WORLD.Get_size",
    "mpi4py.MPI.COMM_WORLD.size",
    "accelerate.Accelerator.num_processes",
    "accelerate.PartialState.num_processes",
    "lightning.fabric.Fabric.world_size",
    "lightning.pytorch.Trainer.world_size",
    "transformers.TrainingArguments.world_size",
    "ignite.distributed.get_world_size",
    "torch.cuda.device_count",
)

_RANKS: dict[str, Value] = {
    **{name: RankValue(RankKind.GLOBAL, name) for name in _GLOBAL},
    **{name: RankValue(RankKind.LOCAL, name) for name in _LOCAL},
    **{name: RankValue(RankKind.NODE, name) for name in _NODE},
    **{name: RankValue(RankKind.COORDINATE, name) for name in _COORDINATE},
    **{name: WorldSize(name) for name in _WORLD},
}

_BY_KIND = {
    RankKind.GLOBAL: (
        "RANK",
        "OMPI_COMM_WORLD_RANK",
        "PMI_RANK",
        "PMIX_RANK",
        "SLURM_PROCID",
        "HOROVOD_RANK",
    ),
    RankKind.LOCAL: (
        "LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "MPI_LOCALRANKID",
        "SLURM_LOCALID",
        "HOROVOD_LOCAL_RANK",
    ),
    RankKind.NODE: ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID", "SM_CURRENT_HOST_RANK"),
}
_SIZES = (
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "SLURM_NTASKS",
    "HOROVOD_SIZE",
)

VARIABLES: dict[str, Value] = {
    **{name: RankValue(kind, name) for kind, names in _BY_KIND.items() for name in names},
    **{name: WorldSize(name) for name in _SIZES},
}
"""The environment variables of torchrun, mpirun, SLURM, Horovod and SageMaker, and what they hold."""

GROUPED = frozenset({"torch.distributed.get_rank", "deepspeed.comm.get_rank"})
"""What gives the rank within a group where it is called with one."""

LOCAL_RANK_OPTIONS = frozenset({"--local_rank", "--local-rank"})
"""What `torch.distributed.launch` and the `deepspeed` launcher hand to each process they start."""


def rank_of(name: str) -> Value | None:
    """What a call or attribute of this name gives, where that is a rank or a world size."""
    return _RANKS.get(name)


MAIN_PROCESS: dict[str, tuple[RankKind, int]] = {
    "accelerate.Accelerator.is_main_process": (RankKind.GLOBAL, 0),
    "accelerate.Accelerator.is_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.Accelerator.is_last_process": (RankKind.GLOBAL, LAST),
    "accelerate.PartialState.is_main_process": (RankKind.GLOBAL, 0),
    "accelerate.PartialState.is_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.PartialState.is_last_process": (RankKind.GLOBAL, LAST),
    "accelerate.AcceleratorState.is_main_process": (RankKind.GLOBAL, 0),
    "lightning.fabric.Fabric.is_global_zero": (RankKind.GLOBAL, 0),
    "lightning.pytorch.Trainer.is_global_zero": (RankKind.GLOBAL, 0),
    "lightning.pytorch.LightningModule.trainer.is_global_zero": (RankKind.GLOBAL, 0),
    "torch_xla.xla_model.is_master_ordinal": (RankKind.LOCAL, 0),
    "transformers.Trainer.is_world_process_zero": (RankKind.GLOBAL, 0),
    "transformers.Trainer.is_local_process_zero": (RankKind.LOCAL, 0),
}
"""What is true on one rank alone: which."""

MAIN_PROCESS_ONLY: dict[str, tuple[RankKind, int]] = {
    "accelerate.Accelerator.on_main_process": (RankKind.GLOBAL, 0),
    "accelerate.Accelerator.on_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.Accelerator.on_last_process": (RankKind.GLOBAL, LAST),
    "lightning.pytorch.utilities.rank_zero_only": (RankKind.GLOBAL, 0),
}
"""The decorators of functions that run on one rank alone: which."""

DISTRIBUTED: frozenset[str] = frozenset(
    {
        "torch.distributed.is_initialized",
        "torch.distributed.is_available",
        "torch.distributed.is_torchelastic_launched",
        "torch.distributed.is_nccl_available",
        "deepspeed.comm.is_initialized",
        "deepspeed.comm.is_available",
        "horovod.torch.is_initialized",
    }
)
"""What is true in every distributed run, on all ranks."""
