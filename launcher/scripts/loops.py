"""Training loops and what they use: loaders, samplers, wrapped models, and who owns each object.

An owner is the library that an object went through: `accelerator.prepare(loader)` gives the loader a sampler
of its own and sets its epoch, so that what would be a mistake of the script is none. Ownership is of objects:
a loader that did not go through it is still the script's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.scopes import ancestors, class_of, last_name, scope_of
from launcher.scripts.values import Defined, External, Instance, Value, alternatives

if TYPE_CHECKING:
    from launcher.scripts.program import Program

LOADER = "torch.utils.data.DataLoader"
SAMPLER = "torch.utils.data.DistributedSampler"
DDP = "torch.nn.parallel.DistributedDataParallel"
FSDP = "torch.distributed.fsdp.FullyShardedDataParallel"
OPTIMIZERS = "torch.optim."
"""The one dotted names of what a training is made of; those of optimizers begin so."""


class Owner(Enum):
    """Who shards a loader, sets its epoch, and moves its batches."""

    SCRIPT = "the script"
    ACCELERATE = "Accelerate"
    FABRIC = "Fabric"
    LIGHTNING = "Lightning"
    TRANSFORMERS = "the Hugging Face Trainer"
    DEEPSPEED = "DeepSpeed"


_TAKING = {
    "accelerate.Accelerator.prepare": Owner.ACCELERATE,
    "accelerate.Accelerator.prepare_data_loader": Owner.ACCELERATE,
    "accelerate.Accelerator.prepare_model": Owner.ACCELERATE,
    "accelerate.Accelerator.prepare_optimizer": Owner.ACCELERATE,
    "lightning.fabric.Fabric.setup_dataloaders": Owner.FABRIC,
    "lightning.fabric.Fabric.setup": Owner.FABRIC,
    "lightning.pytorch.Trainer.fit": Owner.LIGHTNING,
    "lightning.pytorch.Trainer.validate": Owner.LIGHTNING,
    "lightning.pytorch.Trainer.test": Owner.LIGHTNING,
    "lightning.pytorch.Trainer.predict": Owner.LIGHTNING,
    "transformers.Trainer": Owner.TRANSFORMERS,
    "deepspeed.initialize": Owner.DEEPSPEED,
}
"""The calls by which a library takes the objects that are its arguments."""

_CLASSES = {
    "lightning.pytorch.LightningModule": Owner.LIGHTNING,
    "lightning.pytorch.LightningDataModule": Owner.LIGHTNING,
    "transformers.Trainer": Owner.TRANSFORMERS,
}
"""The classes whose own methods make objects for a library."""

_ROUND = frozenset({"enumerate", "tqdm", "trange", "zip", "islice", "iter", "track", "cycle", "list"})
"""What loops over its first argument."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingLoop:
    """A loop in which gradients are made: over `loader`, which is UNKNOWN or an Instance where that is known.

    `epochs` is the loop around it, in its function or around the one call of that.
    """

    node: ast.For | ast.AsyncFor
    loader: Value
    owner: Owner
    epochs: ast.For | None


class Loops:
    """The training loops of one program, and its objects."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    def loaders(self) -> Iterator[tuple[ast.Call, Owner]]:
        """The data loaders that the program makes, with the owner of each."""
        for call, _ in self.program.calls(LOADER):
            yield call, self.owner_of(call)

    def owner_of(self, call: ast.Call) -> Owner:
        """Who owns the object that a call makes: by what it is handed to, or by the class that makes it."""
        return self._taken.get(call) or self._of_class(call) or Owner.SCRIPT

    @cached_property
    def training(self) -> tuple[TrainingLoop, ...]:
        """The innermost loops over data in which a backward pass stands."""
        found: dict[ast.AST, TrainingLoop] = {}
        for file in self.program.files:
            for call in file.calls_of.get("backward", ()):
                loop = _loop_around(call)
                if loop is not None and loop not in found:
                    found[loop] = self._described(loop)
        return tuple(found.values())

    def wrapped(self, node: ast.expr) -> str | None:
        """The wrapper of a model that an expression is: the name of DDP or FSDP, None where it is neither."""
        names = {each.name for each in alternatives(self.program.value(node)) if isinstance(each, Instance)}
        return next((name for name in (DDP, FSDP) if name in names), None)

    @cached_property
    def _taken(self) -> dict[ast.Call, Owner]:
        found: dict[ast.Call, Owner] = {}
        for call, name in self.program.calls(*_TAKING):
            for argument in _spread([*call.args, *(each.value for each in call.keywords)]):
                for value in alternatives(self.program.value(argument)):
                    if isinstance(value, Instance):
                        found.setdefault(value.call, _TAKING[name])
        return found

    def _of_class(self, call: ast.Call) -> Owner | None:
        scope = scope_of(call).function
        definition = None if scope is None else class_of(scope.node)
        return None if definition is None else self._inherits(definition, 0)

    def _inherits(self, definition: ast.ClassDef, depth: int) -> Owner | None:
        for base in definition.bases:
            value = self.program.value(base)
            if isinstance(value, External) and value.name in _CLASSES:
                return _CLASSES[value.name]
            if isinstance(value, Defined) and isinstance(value.node, ast.ClassDef) and depth < 10:
                above = self._inherits(value.node, depth + 1)
                if above is not None:
                    return above
        return None

    def _described(self, loop: ast.For | ast.AsyncFor) -> TrainingLoop:
        over = loop.iter
        while isinstance(over, ast.Call) and over.args and last_name(over.func) in _ROUND:
            over = over.args[0]
        value = self.program.value(over)
        owner = Owner.SCRIPT
        for each in alternatives(value):
            if isinstance(each, Instance):
                owner = _TAKING.get(each.name) or self.owner_of(each.call)
        return TrainingLoop(loop, value, owner, self._epochs(loop))

    def _epochs(self, loop: ast.For | ast.AsyncFor) -> ast.For | None:
        outer = next((each for each in _of_function(loop) if isinstance(each, ast.For)), None)
        scope = scope_of(loop).function
        if outer is not None or scope is None or isinstance(scope.node, ast.ClassDef | ast.Module):
            return outer
        function = scope.node
        assert isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        calls = self.program.evaluation.callers.of(function)
        if calls is None or len(calls) != 1:
            return None
        return next((each for each in _of_function(calls[0].call) if isinstance(each, ast.For)), None)


def _loop_around(node: ast.AST) -> ast.For | ast.AsyncFor | None:
    return next((each for each in _of_function(node) if isinstance(each, ast.For | ast.AsyncFor)), None)


def _of_function(node: ast.AST) -> Iterator[ast.AST]:
    """What holds a node within its function."""
    for outer in ancestors(node):
        if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            return
        yield outer


def _spread(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    """The expressions, and those within written lists of them."""
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List):
            yield from _spread(node.elts)
        else:
            yield node
