"""What an expression can be known to be, and which names of libraries stand for ranks and world sizes.

What is not known is UNKNOWN, and no rule speaks of it. Libraries offer one thing under several names:
`canonical_name` gives `torch.distributed.barrier`, however it was imported. Ranks and sizes come from calls
and attributes of libraries and from the variables of launchers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from launcher.program.index import FileIndex


class RankKind(Enum):
    """Among which processes a rank counts."""

    GLOBAL = "global"
    LOCAL = "local"
    """On one host."""
    NODE = "node"
    """The host's own number."""
    COORDINATE = "coordinate"
    """In one dimension of a mesh, or in a group."""
    DERIVED = "derived"
    """Calculated from a rank: it differs between ranks, and is none itself."""


@dataclass(frozen=True, slots=True)
class RankValue:
    """A number that differs between the processes; `source` is where it comes from, such as `RANK`."""

    kind: RankKind
    source: str


@dataclass(frozen=True, slots=True)
class WorldSize:
    """The number of processes, of all or of those on a host."""

    source: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class External:
    """A module, class, function or member of a library, by its one dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class Instance:
    """What a call of `name`, a class or function of a library, gives: by `call`."""

    name: str
    call: ast.Call
    item: int | None = None


@dataclass(frozen=True, slots=True)
class ModuleOf:
    """A module of the program."""

    file: FileIndex


@dataclass(frozen=True, slots=True)
class Defined:
    """A function or class of the program; `owner` is the object's class where it is a bound method."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    owner: ast.ClassDef | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """An object of a class of the program."""

    definition: ast.ClassDef


@dataclass(frozen=True, slots=True)
class Several:
    """A tuple or list that is written out."""

    node: ast.Tuple | ast.List


@dataclass(frozen=True, slots=True)
class Either:
    """One of several things, depending on what runs before."""

    values: tuple[Value, ...]


class Nothing(Enum):
    """What says nothing of an expression."""

    UNKNOWN = "unknown"
    ITSELF = "itself"
    """A value that is calculated from itself: whatever its other sources say."""


UNKNOWN = Nothing.UNKNOWN

Value = (
    RankValue
    | WorldSize
    | Constant
    | External
    | Instance
    | ModuleOf
    | Defined
    | Made
    | Several
    | Either
    | Nothing
)

Environment = Mapping[ast.AST, Value]
"""What parameters are in one call, by the nodes of the parameters."""


def joined(values: Iterable[Value]) -> Value:
    """What an expression is that may have any of these values.

    A rank stays one beside literals, which stand for a run that is not distributed; None and other literals
    beside an object are its absence. Unknown beside anything is unknown, but that an object stays one of
    those that it may be.
    """
    found = [each for each in values if each is not Nothing.ITSELF]
    if len(found) > 1:
        found = list(dict.fromkeys(found))
    if not found:
        return UNKNOWN
    if len(found) == 1:
        return found[0]
    if UNKNOWN in found:
        objects = [part for each in found for part in alternatives(each) if isinstance(part, Instance)]
        return Either((*dict.fromkeys(objects), UNKNOWN)) if objects else UNKNOWN
    telling = [each for each in found if not isinstance(each, Constant)]
    if not telling:
        return UNKNOWN
    ranks = [each for each in telling if isinstance(each, RankValue)]
    if ranks:
        if len(ranks) < len(telling):
            return UNKNOWN
        # Where one is calculated from another, `rank = rank * n + gpu`, it is still what it was.
        kinds = {each.kind for each in ranks} - {RankKind.DERIVED} or {RankKind.DERIVED}
        ranks.sort(key=lambda each: each.kind is RankKind.DERIVED)
        return ranks[0] if len(kinds) == 1 else RankValue(RankKind.DERIVED, ranks[0].source)
    if all(isinstance(each, WorldSize) for each in telling):
        return telling[0]
    if len(telling) == 1:
        only = telling[0]
        # A literal other than None beside an object: which of the two it is, decides what is right.
        absent = all(each == Constant(None) for each in found if isinstance(each, Constant))
        return only if absent else Either((only, UNKNOWN))
    flat = [part for each in telling for part in (each.values if isinstance(each, Either) else (each,))]
    return Either(tuple(dict.fromkeys(flat)))


def alternatives(value: Value) -> tuple[Value, ...]:
    """All that a value may be."""
    return value.values if isinstance(value, Either) else (value,)


LAST_RANK = -1
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

RANK_VARIABLES: dict[str, Value] = {
    **{name: RankValue(kind, name) for kind, names in _BY_KIND.items() for name in names},
    **{name: WorldSize(name) for name in _SIZES},
}
"""The environment variables of torchrun, mpirun, SLURM, Horovod and SageMaker, and what they hold."""

GROUP_RANK_CALLS = frozenset({"torch.distributed.get_rank", "deepspeed.comm.get_rank"})
"""What gives the rank within a group where it is called with one."""

LOCAL_RANK_OPTIONS = frozenset({"--local_rank", "--local-rank"})
"""What `torch.distributed.launch` and the `deepspeed` launcher hand to each process they start."""


def rank_named(name: str) -> Value | None:
    """What a call or attribute of this name gives, where that is a rank or a world size."""
    return _RANKS.get(name)


MAIN_PROCESS_TESTS: dict[str, tuple[RankKind, int]] = {
    "accelerate.Accelerator.is_main_process": (RankKind.GLOBAL, 0),
    "accelerate.Accelerator.is_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.Accelerator.is_last_process": (RankKind.GLOBAL, LAST_RANK),
    "accelerate.PartialState.is_main_process": (RankKind.GLOBAL, 0),
    "accelerate.PartialState.is_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.PartialState.is_last_process": (RankKind.GLOBAL, LAST_RANK),
    "accelerate.AcceleratorState.is_main_process": (RankKind.GLOBAL, 0),
    "lightning.fabric.Fabric.is_global_zero": (RankKind.GLOBAL, 0),
    "lightning.pytorch.Trainer.is_global_zero": (RankKind.GLOBAL, 0),
    "lightning.pytorch.LightningModule.trainer.is_global_zero": (RankKind.GLOBAL, 0),
    "torch_xla.xla_model.is_master_ordinal": (RankKind.LOCAL, 0),
    "transformers.Trainer.is_world_process_zero": (RankKind.GLOBAL, 0),
    "transformers.Trainer.is_local_process_zero": (RankKind.LOCAL, 0),
}
"""What is true on one rank alone: which."""

MAIN_PROCESS_DECORATORS: dict[str, tuple[RankKind, int]] = {
    "accelerate.Accelerator.on_main_process": (RankKind.GLOBAL, 0),
    "accelerate.Accelerator.on_local_main_process": (RankKind.LOCAL, 0),
    "accelerate.Accelerator.on_last_process": (RankKind.GLOBAL, LAST_RANK),
    "lightning.pytorch.utilities.rank_zero_only": (RankKind.GLOBAL, 0),
}
"""The decorators of functions that run on one rank alone: which."""

TRUE_WHEN_DISTRIBUTED: frozenset[str] = frozenset(
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


_ALIASES = {
    "torch.distributed.distributed_c10d": "torch.distributed",
    "torch.distributed.fsdp.fully_sharded_data_parallel": "torch.distributed.fsdp",
    "torch.distributed.fsdp.api": "torch.distributed.fsdp",
    "torch.distributed._composable.fsdp": "torch.distributed.fsdp",
    "torch.distributed._composable.fsdp.fully_shard": "torch.distributed.fsdp",
    "torch.distributed._composable.fully_shard": "torch.distributed.fsdp.fully_shard",
    "torch.distributed.checkpoint.state_dict_saver": "torch.distributed.checkpoint",
    "torch.distributed.checkpoint.state_dict_loader": "torch.distributed.checkpoint",
    "torch.distributed.tensor.device_mesh": "torch.distributed.device_mesh",
    "torch.distributed._tensor": "torch.distributed.tensor",
    "torch.nn.parallel.distributed": "torch.nn.parallel",
    "torch.nn.parallel.data_parallel": "torch.nn.parallel",
    "torch.nn.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.utils.data.distributed": "torch.utils.data",
    "torch.utils.data.dataloader": "torch.utils.data",
    "torch.utils.data.dataset": "torch.utils.data",
    "torch.utils.data.sampler": "torch.utils.data",
    "torch.multiprocessing.spawn.spawn": "torch.multiprocessing.spawn",
    "torch.nn.utils.clip_grad": "torch.nn.utils",
    "torch.cuda.amp.grad_scaler": "torch.cuda.amp",
    "torch.amp.grad_scaler": "torch.amp",
    "torch.optim.optimizer": "torch.optim",
    "torch.optim.lr_scheduler": "torch.optim.lr_scheduler",
    "deepspeed.runtime.engine": "deepspeed",
    "deepspeed.comm.comm": "deepspeed.comm",
    "accelerate.accelerator": "accelerate",
    "accelerate.state": "accelerate",
    "accelerate.utils.operations": "accelerate.utils",
    "accelerate.utils.other": "accelerate.utils",
    "pytorch_lightning": "lightning.pytorch",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.Callback": "lightning.pytorch.Callback",
    "lightning.pytorch.trainer.trainer": "lightning.pytorch",
    "lightning.pytorch.trainer": "lightning.pytorch",
    "lightning.pytorch.core.module": "lightning.pytorch",
    "lightning.pytorch.core": "lightning.pytorch",
    "lightning.pytorch.callbacks.callback": "lightning.pytorch",
    "lightning.pytorch.callbacks.Callback": "lightning.pytorch.Callback",
    "lightning.pytorch.loggers.logger": "lightning.pytorch.loggers",
    "lightning_fabric": "lightning.fabric",
    "lightning.Fabric": "lightning.fabric.Fabric",
    "lightning.fabric.fabric": "lightning.fabric",
    "lightning_utilities.core.rank_zero": "lightning.pytorch.utilities",
    "lightning.pytorch.utilities.rank_zero": "lightning.pytorch.utilities",
    "lightning.pytorch.utilities.distributed": "lightning.pytorch.utilities",
    "lightning.fabric.utilities.rank_zero": "lightning.pytorch.utilities",
    "transformers.trainer": "transformers",
    "transformers.training_args": "transformers",
    "horovod.torch.mpi_ops": "horovod.torch",
    "horovod.torch.functions": "horovod.torch",
    "torch_xla.core.xla_model": "torch_xla.xla_model",
    "torch_xla.distributed.parallel_loader": "torch_xla.parallel_loader",
    "torch_xla.distributed.xla_multiprocessing": "torch_xla.multiprocessing",
    "smdistributed.dataparallel.torch.parallel.distributed": "torch.nn.parallel",
    "smdistributed.dataparallel.torch.parallel": "torch.nn.parallel",
    "torch.sagemaker": "smdistributed.modelparallel.torch",
    "multiprocess.Process": "multiprocessing.Process",
    "torch.multiprocessing.Process": "multiprocessing.Process",
}
"""Prefixes of dotted names, and the prefix that stands for all of them here."""

RESULT_CLASSES = {
    ("deepspeed.initialize", 0): "deepspeed.DeepSpeedEngine",
    ("torch.distributed.device_mesh.init_device_mesh", None): "torch.distributed.device_mesh.DeviceMesh",
    ("horovod.torch.DistributedOptimizer", None): "torch.optim.Optimizer",
}
"""The class of what a function gives, or of one part of it."""

KNOWN_BY_TABLES = frozenset(
    {"accelerate.Accelerator", "accelerate.PartialState", "lightning.fabric.Fabric", "deepspeed.initialize"}
)
"""What the tables of ranks and collectives tell all of, also where the library's source is in the program.

Its own examples and tests import it so, and its thousands of lines would have to be followed to the same end.
"""

_ALIASED_LIBRARIES = frozenset(name.partition(".")[0] for name in _ALIASES)


@lru_cache(maxsize=8192)
def canonical_name(name: str) -> str:
    """The one name of a thing of a library; any other name as it is."""
    if name.partition(".")[0] not in _ALIASED_LIBRARIES:
        return name
    for _ in range(4):  # So often at most does one renaming lead to another.
        for length in range(name.count(".") + 1, 0, -1):
            prefix = ".".join(name.split(".")[:length])
            short = _ALIASES.get(prefix)
            if short is not None and short != prefix:
                name = short + name[len(prefix) :]
                break
        else:
            return name
    return name


# How a program becomes distributed, and what wraps its models: by library.


INIT_PROCESS_GROUP = "torch.distributed.init_process_group"
DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"

JOINING_CALLS = (
    INIT_PROCESS_GROUP,
    "torch.distributed.device_mesh.init_device_mesh",
    "deepspeed.initialize",
    "deepspeed.init_distributed",
    "deepspeed.comm.init_distributed",
    "horovod.torch.init",
    "accelerate.Accelerator",
    "lightning.fabric.Fabric",
    "smdistributed.modelparallel.torch.init",
    "torch_xla.multiprocessing.spawn",
    "torch_xla.launch",
)
"""The calls after which a program is one of several processes."""
