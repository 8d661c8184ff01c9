"""Forward passes in which the ranks wait for each other: those of a sharded model.

FSDP gathers its shards in every forward pass, in evaluation too. A pass of DDP is none: it broadcasts the
model's buffers, in evaluation as in training, but not after a pass without gradients or under no_sync. So
where rank 0 alone evaluates between two epochs, the one broadcast of its first batch meets that of the other
ranks' next training pass, and nobody waits in vain.

Source: torch 2.13, distributed/fsdp/_runtime_utils.py and distributed/fsdp/_fully_shard;
nn/parallel/distributed.py (`_pre_forward`, `_post_forward`, `will_sync_module_buffers`).
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.arguments import argument, is_open
from launcher.scripts.collectives import Collective
from launcher.scripts.distributed import FSDP, FULLY_SHARD
from launcher.scripts.origins import origins
from launcher.scripts.scopes import Binding, BindingKind, ancestors
from launcher.scripts.values import External, Instance, Made

if TYPE_CHECKING:
    from launcher.scripts.program import Program

GATHERS = Collective("torch.distributed.fsdp.FullyShardedDataParallel.forward", "forward")
"""The forward pass of a sharded model."""

_SHARDING = "torch.distributed.fsdp.ShardingStrategy.FULL_SHARD"
_GROUPS = ("process_group", "device_mesh", "mesh")


class Forwards:
    """The forward passes of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program

    @cached_property
    def calls(self) -> dict[ast.Call, Collective]:
        """The forward passes that surely communicate, over all ranks."""
        if not any(self.program.calls(FSDP, FULLY_SHARD)):
            return {}
        return {
            call: GATHERS
            for file in self.program.files
            for name, calls in file.calls_of.items()
            if name in self._holding
            for call in calls
            if self._is_sharded(call.func)
        }

    @cached_property
    def _holding(self) -> set[str]:
        """The last names that may hold an object: most of what is called is a function or a method, and known
        to be no model without being looked at."""
        held: set[str] = set()
        for file in self.program.files:
            held.update(file.set_attributes)
            for scope in file.scopes.values():
                held.update(
                    name for name, bindings in scope.bindings.items() if any(map(_may_hold, bindings))
                )
        return held

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

    def _is_sharded(self, model: ast.expr) -> bool:
        made = self.program.value(model)
        if isinstance(made, Instance) and made.name == FSDP and made.item is None:
            strategy = argument(made.call, "sharding_strategy")
            full = strategy is None or self.program.value(strategy) == External(_SHARDING)
            return full and _is_for_all(made.call)
        if isinstance(made, Instance) and made.name == FULLY_SHARD:
            return _is_for_all(made.call)
        if not self._sharded or not isinstance(made, Made | Instance):
            return False
        return all(each in self._sharded for each in origins(self.program, model))


def _may_hold(binding: Binding) -> bool:
    """Whether a binding may give its name an object: an import of one, too, and a property."""
    if binding.kind is not BindingKind.DEFINED:
        return True
    return isinstance(binding.node, ast.FunctionDef) and bool(binding.node.decorator_list)


def _is_for_all(wrapper: ast.Call) -> bool:
    """Whether a wrapper is for all ranks, as far as its arguments tell."""
    return (
        not is_open(wrapper)
        and len(wrapper.args) == 1
        and not any(argument(wrapper, name) for name in _GROUPS)
    )
