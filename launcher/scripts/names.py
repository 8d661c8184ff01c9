"""One name for what libraries offer under several: `torch.distributed.barrier`, however it was imported."""

from __future__ import annotations

from functools import lru_cache

_SAME = {
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

RESULTS = {
    ("deepspeed.initialize", 0): "deepspeed.DeepSpeedEngine",
    ("torch.distributed.device_mesh.init_device_mesh", None): "torch.distributed.device_mesh.DeviceMesh",
    ("horovod.torch.DistributedOptimizer", None): "torch.optim.Optimizer",
}
"""The class of what a function gives, or of one part of it."""

SPOKEN_FOR = frozenset(
    {"accelerate.Accelerator", "accelerate.PartialState", "lightning.fabric.Fabric", "deepspeed.initialize"}
)
"""What the tables of ranks and collectives tell all of, also where the library's source is in the program.

Its own examples and tests import it so, and its thousands of lines would have to be followed to the same end.
"""

_STARTS = frozenset(name.partition(".")[0] for name in _SAME)


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """The one name of a thing of a library; any other name as it is."""
    if name.partition(".")[0] not in _STARTS:
        return name
    for _ in range(4):  # So often at most does one renaming lead to another.
        for length in range(name.count(".") + 1, 0, -1):
            prefix = ".".join(name.split(".")[:length])
            short = _SAME.get(prefix)
            if short is not None and short != prefix:
                name = short + name[len(prefix) :]
                break
        else:
            return name
    return name
