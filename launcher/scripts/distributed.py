"""How a program becomes distributed, and what wraps its models: by library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.scripts.program import Program

GROUP = "torch.distributed.init_process_group"
DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
FULLY_SHARD = "torch.distributed.fsdp.fully_shard"

STARTS = (
    GROUP,
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


def starts(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The calls by which a program joins others."""
    return program.calls(*STARTS)
