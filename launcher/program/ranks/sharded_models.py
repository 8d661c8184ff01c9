"""The models of which each rank holds a part, and what puts the parts together.

FSDP and DeepSpeed's ZeRO stage 3 gather their shards in every forward pass, in evaluation too. A pass of DDP
gathers nothing: it broadcasts the model's buffers, in evaluation as in training, but not after a pass without
gradients or under no_sync. So where rank 0 alone evaluates between two epochs, the one broadcast of its first
batch meets that of the other ranks' next training pass, and nobody waits in vain. A parameter of a model that
fully_shard shards is a DTensor, whose full_tensor gathers it.

Source: torch 2.13, distributed/fsdp/_runtime_utils.py and distributed/fsdp/_fully_shard;
nn/parallel/distributed.py (`_pre_forward`, `_post_forward`, `will_sync_module_buffers`); deepspeed 0.19.8,
runtime/zero/parameter_offload.py (`_register_deepspeed_module`) and partition_parameters.py.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum, auto
from functools import cached_property

from launcher.program.dataflow import argument_of, has_star_arguments, origins
from launcher.program.index import Binding, BindingKind, ancestors, last_name
from launcher.program.program import Program
from launcher.program.values import FSDP, FULLY_SHARD, Constant, External, Instance, Made


class Gathering(Enum):
    """How the ranks put the shards of a model together."""

    FORWARD = auto()
    """The forward pass of a sharded model."""
    PARAMETERS = auto()
    """The context in which the parameters of ZeRO stage 3 are whole."""
    TENSOR = auto()
    """`full_tensor` of a parameter, or of its gradient."""
    STATE = auto()
    """`full_tensor` of an entry of the model's state."""


_GROUP_ARGUMENTS = ("process_group", "device_mesh", "mesh", "mpu")
_ENGINE = "deepspeed.initialize"
_GATHERED_PARAMETERS = "deepspeed.zero.GatheredParameters"
_GIVING_ALL = ("enumerate", "list", "sorted", "reversed", "tqdm", "dict")
"""What gives all elements of what it is given."""
_SAME_SHARDS = ("grad", "data")
"""Attributes of a sharded tensor that are sharded in the same way; so is what `detach` gives."""


class ShardedModels:
    """The sharded models of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program

    @cached_property
    def gathering(self) -> dict[ast.Call, Gathering]:
        """The calls that surely put shards together, with all ranks."""
        wrapped = any(self.program.calls(FSDP, FULLY_SHARD))
        if not wrapped and not self._engines:
            return {}
        found = {
            call: Gathering.FORWARD
            for file in self.program.files
            for name, calls in file.calls_of.items()
            if name in self._holding
            for call in calls
            if self._is_sharded(call.func)
        }
        for call, _ in self.program.calls(_GATHERED_PARAMETERS) if self._engines else ():
            if argument_of(call, "enabled", 3) is None:
                found[call] = Gathering.PARAMETERS
        for file in self.program.files:
            for call in file.calls_of.get("full_tensor", ()):
                kind = self._kind_of(call.func.value) if isinstance(call.func, ast.Attribute) else None
                if kind is not None:
                    found[call] = kind
        return found

    @cached_property
    def _holding(self) -> set[str]:
        """The last names that may hold an object: most of what is called is a function or a method, and known
        to be no model without being looked at."""
        held = {"module"}
        for file in self.program.files:
            held.update(file.set_attributes)
            for scope in file.scopes.values():
                held.update(
                    name for name, bindings in scope.bindings.items() if any(map(_may_hold_object, bindings))
                )
        return held

    @cached_property
    def _engines(self) -> set[ast.Call]:
        """The calls that make an engine of ZeRO stage 3, by a configuration that is written out."""
        return {
            call
            for call, _ in self.program.calls(_ENGINE)
            if not any(argument_of(call, each) for each in _GROUP_ARGUMENTS)
            and (given := argument_of(call, "config", 7) or argument_of(call, "config_params")) is not None
            and all(map(self._is_of_stage_three, origins(self.program, given)))
        }

    def _is_of_stage_three(self, configuration: ast.expr | None) -> bool:
        zero = self._entries(configuration, "zero_optimization")
        stages = [stage for each in zero for stage in self._entries(each, "stage")]
        return len(stages) == 1 and self.program.value(stages[0]) == Constant(3)

    def _entries(self, table: ast.expr | None, key: str) -> Iterator[ast.expr]:
        for made in origins(self.program, table) if table is not None else ():
            for name, value in zip(made.keys, made.values, strict=True) if isinstance(made, ast.Dict) else ():
                if isinstance(name, ast.Constant) and name.value == key:
                    yield value

    @cached_property
    def _sharded(self) -> set[ast.expr]:
        """What made the models that `fully_shard` shards in place, on every way through the program."""
        found: set[ast.expr] = set()
        for call, _ in self.program.calls(FULLY_SHARD):
            model = argument_of(call, "module", 0)
            held = any(isinstance(each, ast.If | ast.IfExp | ast.Try) for each in ancestors(call))
            if model is not None and not held and _is_for_all_ranks(call):
                found |= {each for each in origins(self.program, model) if isinstance(each, ast.Call)}
        return found

    def _is_sharded(self, model: ast.expr) -> bool:
        made = self.program.value(model)
        if isinstance(made, Instance) and made.name == FSDP and made.item is None:
            strategy = argument_of(made.call, "sharding_strategy")
            is_whole = strategy is not None and keeps_whole_model(self.program, strategy)
            return not is_whole and _is_for_all_ranks(made.call)
        return self._is_of_an_engine(model) or self._is_of_tensors(model)

    def _is_of_an_engine(self, model: ast.expr) -> bool:
        """Whether a model is an engine of ZeRO stage 3, or the module in it."""
        if not self._engines:
            return False
        if isinstance(model, ast.Attribute) and model.attr == "module":
            model = model.value
        made = self.program.value(model)
        return isinstance(made, Instance) and made.item == 0 and made.call in self._engines

    def _is_of_tensors(self, model: ast.expr) -> bool:
        """Whether the parameters of a model are DTensors, which `fully_shard` makes of them."""
        made = self.program.value(model)
        if isinstance(made, Instance) and made.name == FULLY_SHARD:
            return _is_for_all_ranks(made.call)
        if not self._sharded or not isinstance(made, Made | Instance):
            return False
        return all(each in self._sharded for each in origins(self.program, model))

    def _kind_of(self, tensor: ast.expr, depth: int = 4) -> Gathering | None:
        """What `full_tensor` of a tensor gathers: of one that comes from a loop over a sharded model."""
        while True:
            inner = tensor.func if isinstance(tensor, ast.Call) and not tensor.args else tensor
            if not isinstance(inner, ast.Attribute):
                break
            if inner.attr not in (("detach",) if inner is not tensor else _SAME_SHARDS):
                break
            tensor = inner.value
        sources = self.program.evaluation.sources(tensor) if isinstance(tensor, ast.Name) and depth else []
        kinds = {
            self._kind_of_elements(each)
            if each.kind is BindingKind.LOOPED
            else self._kind_of(each.value, depth - 1)
            if each.kind is BindingKind.ASSIGNED and each.value is not None and each.item is None
            else None
            for each in sources
        }
        return kinds.pop() if len(kinds) == 1 else None

    def _kind_of_elements(self, binding: Binding) -> Gathering | None:
        """What a loop's variable is a part of: `for name, parameter in model.named_parameters()`."""
        listed = getattr(binding.node, "iter", None)
        made = [listed]
        while listed is not None:
            if isinstance(listed, ast.Call) and listed.args and last_name(listed.func) in _GIVING_ALL:
                listed = listed.args[0]
            made = [*origins(self.program, listed)]
            if made == [listed] or len(made) != 1:
                break
            listed = made[0]
        call = made[0] if len(made) == 1 else None
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            return None
        if call.func.attr in ("parameters", "named_parameters"):
            return Gathering.TENSOR if self._is_of_tensors(call.func.value) else None
        if call.func.attr not in ("items", "values"):
            return None
        states = origins(self.program, call.func.value)
        of_models = [
            each.func.value
            for each in states
            if isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr == "state_dict"
        ]
        are_sharded = len(of_models) == len(states) and all(map(self._is_of_tensors, of_models))
        return Gathering.STATE if are_sharded else None


def _may_hold_object(binding: Binding) -> bool:
    """Whether a binding may give its name an object: an import of one, too, and a property."""
    if binding.kind is not BindingKind.DEFINED:
        return True
    return isinstance(binding.node, ast.FunctionDef) and bool(binding.node.decorator_list)


def _is_for_all_ranks(wrapper: ast.Call) -> bool:
    """Whether a wrapper is for all ranks, as far as its arguments tell."""
    return (
        not has_star_arguments(wrapper)
        and len(wrapper.args) == 1
        and not any(argument_of(wrapper, name) for name in _GROUP_ARGUMENTS)
    )


def keeps_whole_model(program: Program, strategy: ast.expr) -> bool:
    """Whether a sharding strategy of FSDP leaves the whole model on each rank, by its name or number. By all
    others, and most likely by one that is not known, the state is gathered from several ranks.

    Source: torch/distributed/fsdp/api.py (ShardingStrategy); accelerate counts them as it does.
    """
    chosen = program.value(strategy)
    name = chosen.name if isinstance(chosen, External) else getattr(chosen, "value", None)
    return str(name).rpartition(".")[2] in ("NO_SHARD", "3")
