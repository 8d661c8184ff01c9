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


def argument(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """An argument of a library's function, by keyword or by position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if position is not None and position < len(call.args):
        given = call.args[: position + 1]
        return None if any(isinstance(each, ast.Starred) for each in given) else given[-1]
    return None


def hides_arguments(call: ast.Call) -> bool:
    """Whether a `*` or `**` in a call may hold any argument."""
    return any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    )
