"""Forward passes in which the ranks wait for each other: always of FSDP, of DDP where it broadcasts buffers.

FSDP gathers its shards in every forward pass, whatever the mode. DDP broadcasts the buffers of its model
from rank 0 at the head of a forward pass, in training as in evaluation, with and without gradients, unless
the pass before it was one without gradients or under no_sync (`require_forward_param_sync`).

Source: torch 2.13, nn/parallel/distributed.py (`_pre_forward`, `_post_forward`, `will_sync_module_buffers`),
distributed/fsdp/_runtime_utils.py and distributed/fsdp/_fully_shard.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument, is_open
from launcher.scripts.collectives import Collective
from launcher.scripts.distributed import DDP, FSDP, FULLY_SHARD
from launcher.scripts.origins import origins
from launcher.scripts.scopes import FunctionNode, ancestors, last_name
from launcher.scripts.values import Constant, External, Instance, Made

if TYPE_CHECKING:
    from launcher.scripts.program import Program

GATHERS = Collective("torch.distributed.fsdp.FullyShardedDataParallel.forward", "forward")
"""The forward pass of a sharded model."""

BROADCASTS = Collective("torch.nn.parallel.DistributedDataParallel.forward", "forward")
"""The forward pass of a DDP model with buffers."""

_SHARDING = "torch.distributed.fsdp.ShardingStrategy.FULL_SHARD"
_GROUPS = ("process_group", "device_mesh", "mesh")
_WITH_BUFFERS = frozenset(
    f"torch.nn.{kind}" for kind in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm")
)
_MODELS_WITH_BUFFERS = (
    "resnet",
    "resnext",
    "wide_resnet",
    "densenet",
    "mobilenet",
    "efficientnet",
    "googlenet",
    "inception",
    "shufflenet",
    "mnasnet",
    "regnet",
)
"""The models of torchvision that normalise batches, by the beginning of their names."""

_KEPT_ON = ("to", "cuda", "float", "train", "eval", "requires_grad_")


class Forwards:
    """The forward passes of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program

    @cached_property
    def calls(self) -> dict[ast.Call, Collective]:
        """The forward passes that surely communicate, over all ranks."""
        if not any(self.program.calls(DDP, FSDP, FULLY_SHARD)):
            return {}
        found: dict[ast.Call, Collective] = {}
        replicated: dict[ast.Call, list[ast.Call]] = {}
        for file in self.program.files:
            for call in file.calls:
                if not isinstance(call.func, ast.Name | ast.Attribute):
                    continue
                made = self.program.value(call.func)
                if self._is_sharded(call.func, made):
                    found[call] = GATHERS
                elif isinstance(made, Instance) and made.name == DDP and made.item is None:
                    replicated.setdefault(made.call, []).append(call)
        for wrapper, passes in replicated.items():
            if self._broadcasts(wrapper):
                found |= {each: BROADCASTS for each in passes if _others_train(each, passes)}
        return found

    @cached_property
    def _sharded(self) -> set[ast.expr]:
        """What made the models that `fully_shard` shards in place, on every way through the program."""
        found: set[ast.expr] = set()
        for call, _ in self.program.calls(FULLY_SHARD):
            model = argument(call, "module", 0)
            held = any(isinstance(each, ast.If | ast.IfExp | ast.Try) for each in ancestors(call))
            if model is not None and not held and _is_for_all(call):
                found |= {each for each in origins(self.program, model) if isinstance(each, ast.Call)}
        return found

    def _is_sharded(self, model: ast.expr, made: object) -> bool:
        if isinstance(made, Instance) and made.name == FSDP and made.item is None:
            strategy = argument(made.call, "sharding_strategy")
            full = strategy is None or self.program.value(strategy) == External(_SHARDING)
            return full and _is_for_all(made.call)
        if isinstance(made, Instance) and made.name == FULLY_SHARD:
            return _is_for_all(made.call)
        if not self._sharded or not isinstance(made, Made | Instance):
            return False
        return all(each in self._sharded for each in origins(self.program, model))

    def _broadcasts(self, wrapper: ast.Call) -> bool:
        """Whether a DDP surely has buffers, and broadcasts them."""
        switches = [argument(wrapper, "broadcast_buffers", 4), argument(wrapper, "forward_sync_buffers")]
        if not _is_for_all(wrapper) or any(
            each is not None and self.program.value(each) != Constant(True) for each in switches
        ):
            return False
        model = argument(wrapper, "module", 0)
        made = () if model is None else origins(self.program, model)
        return bool(made) and all(each is not None and self._has_buffers(each, 2) for each in made)

    def _has_buffers(self, node: ast.expr, depth: int) -> bool:
        while isinstance(node, ast.Call) and last_name(node.func) in _KEPT_ON:
            if not isinstance(node.func, ast.Attribute):
                return False
            node = node.func.value
        value = self.program.value(node)
        if isinstance(value, Instance):
            if value.name == "torch.nn.SyncBatchNorm.convert_sync_batchnorm" and value.call.args:
                inner = origins(self.program, value.call.args[0])
                return all(each is not None and self._has_buffers(each, depth) for each in inner)
            if value.name == "torch.nn.Sequential":
                return any(self._has_buffers(each, depth) for each in value.call.args)
            module, _, name = value.name.rpartition(".")
            if module in ("torchvision.models", "torchvision.models.resnet"):
                return name.startswith(_MODELS_WITH_BUFFERS) or name.endswith("_bn")
            return value.name in _WITH_BUFFERS and argument(value.call, "track_running_stats") is None
        return isinstance(value, Made) and bool(depth) and self._registers(value.definition, depth)

    def _registers(self, definition: ast.ClassDef, depth: int) -> bool:
        """Whether the constructor of a class makes buffers, on every way through it."""
        for method in definition.body:
            if isinstance(method, ast.FunctionDef) and method.name == "__init__":
                for statement in method.body:  # Not what stands under a condition.
                    value = getattr(statement, "value", None)
                    if isinstance(statement, ast.Assign | ast.Expr) and isinstance(value, ast.Call):
                        if ast.unparse(value.func) == "self.register_buffer":
                            return True
                        if isinstance(statement, ast.Assign) and self._has_buffers(value, depth - 1):
                            return True
        return False


def _is_for_all(wrapper: ast.Call) -> bool:
    """Whether a wrapper is for all ranks, as far as its arguments tell."""
    return not is_open(wrapper) and not any(argument(wrapper, name) for name in _GROUPS)


def _others_train(forward: ast.Call, passes: list[ast.Call]) -> bool:
    """Whether all other forward passes of a model are such after which the next one broadcasts."""
    return all(each is forward or _trains(each) for each in passes)


def _trains(forward: ast.Call) -> bool:
    """Whether a loop or function calls backward behind a forward pass, with nothing that stops gradients."""
    held = [each for each in ancestors(forward) if isinstance(each, ast.For | ast.While | FunctionNode)]
    if not held:
        return False
    names = [node for node in ast.walk(held[0]) if isinstance(node, ast.Call)]
    lasts = {last_name(each.func) for each in names}
    return "backward" in lasts and not lasts & {"no_grad", "inference_mode", "no_sync"}
