"""What libraries do with data in the place of the script: own loaders, run loops over them, and call hooks.

A loader that was handed to a library (`accelerator.prepare`, a Trainer) is that library's: it may give it a
sampler and tell it the epoch, so that what would be a mistake of the script is none. A loader that did not go
through it is still the script's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import Enum
from functools import cached_property

from launcher.frozen import frozen
from launcher.program.dataflow import all_arguments, argument_of, has_star_arguments
from launcher.program.index import FunctionNode, class_of, scope_of
from launcher.program.program import Program
from launcher.program.values import LIBRARY_TABLES, Constant, Defined, External, Instance, alternatives


class LoaderOwner(Enum):
    """Who shards a loader, sets its epoch, and moves its batches."""

    SCRIPT = "the script"
    ACCELERATE = "Accelerate"
    FABRIC = "Fabric"
    LIGHTNING = "Lightning"
    TRANSFORMERS = "the Hugging Face Trainer"
    DEEPSPEED = "DeepSpeed"


_OWNER_BY_CALL = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_call"].items()}
"""The calls by which a library takes the objects that are its arguments."""

_OWNER_BY_CLASS = {name: LoaderOwner[owner] for name, owner in LIBRARY_TABLES["owner_by_class"].items()}
"""The classes whose own methods make objects for a library."""


class LoaderOwners:
    """Which library owns the objects of one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    def owner_of(self, call: ast.Call) -> LoaderOwner:
        """Who owns the object that a call makes: by what it is handed to, or by the class that makes it."""
        return self._taken.get(call) or self._of_class(call) or LoaderOwner.SCRIPT

    @cached_property
    def _taken(self) -> dict[ast.Call, LoaderOwner]:
        found: dict[ast.Call, LoaderOwner] = {}
        for call, name in self.program.calls(*_OWNER_BY_CALL):
            for argument in _flatten_lists(all_arguments(call)):
                for value in alternatives(self.program.value(argument)):
                    if isinstance(value, Instance):
                        found.setdefault(value.call, _OWNER_BY_CALL[name])
        return found

    def _of_class(self, call: ast.Call) -> LoaderOwner | None:
        scope = scope_of(call).function
        definition = None if scope is None else class_of(scope.node)
        return None if definition is None else self._inherits(definition, 0)

    def _inherits(self, definition: ast.ClassDef, depth: int) -> LoaderOwner | None:
        for base in definition.bases:
            value = self.program.value(base)
            if isinstance(value, External) and value.name in _OWNER_BY_CLASS:
                return _OWNER_BY_CLASS[value.name]
            if isinstance(value, Defined) and isinstance(value.node, ast.ClassDef) and depth < 10:
                above = self._inherits(value.node, depth + 1)
                if above is not None:
                    return above
        return None


def _flatten_lists(nodes: list[ast.expr]) -> Iterator[ast.expr]:
    """The expressions, and those within written lists of them."""
    for node in nodes:
        if isinstance(node, ast.Tuple | ast.List):
            yield from _flatten_lists(node.elts)
        else:
            yield node


# Ignite's engine goes through a loader as it is, and calls a function of the script for each batch.


_ENGINES = ("ignite.engine.Engine", "ignite.engine.DeterministicEngine")
_TRAINER_MAKER = "ignite.engine.create_supervised_trainer"
ENGINE_RUNS = tuple(f"{name}.run" for name in (*_ENGINES, _TRAINER_MAKER))
"""What goes through a loader that it is given, and leaves it as it is."""


@frozen
class EngineRun:
    """Where an engine is run: over what, and by which function of the program for each batch; None where that
    is the library's own training step."""

    call: ast.Call
    data: ast.expr
    step: ast.FunctionDef | None

    @property
    def repeats(self) -> bool:
        """Whether it goes through its data more than once."""
        epochs = argument_of(self.call, "max_epochs", 1)
        return epochs is not None and getattr(epochs, "value", None) != 1

    @property
    def ends_with_data(self) -> bool:
        """Whether an epoch is as long as the data are."""
        return argument_of(self.call, "epoch_length", 2) is None


def engine_runs(program: Program) -> Iterator[EngineRun]:
    """The runs of engines of which it is known what they do with a batch."""
    for call, _ in program.calls(*ENGINE_RUNS):
        data = argument_of(call, "data", 0)
        if data is None or not isinstance(call.func, ast.Attribute):
            continue
        made = alternatives(program.value(call.func.value))
        for each in (one for one in made if isinstance(one, Instance)):
            function = argument_of(each.call, "process_function", 0)
            value = None if function is None else program.value(function)
            step = value.node if isinstance(value, Defined) else None
            if each.name == _TRAINER_MAKER or isinstance(step, ast.FunctionDef):
                yield EngineRun(call, data, step if isinstance(step, ast.FunctionDef) else None)


# What trainers of libraries do by themselves.


_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer", "trl.SFTTrainer")


def trainers_of_transformers(program: Program) -> list[ast.Call]:
    """Where Trainers of Hugging Face's are made that deal their dataset to the ranks, also by classes of the
    program that do not make the loader themselves."""
    found = [call for call, _ in program.calls(*_TRAINERS)]
    for definition in derived_trainers(program):
        if HOOK_OF_TRAINERS not in {getattr(each, "name", "") for each in definition.body}:
            found += program.evaluation.callers.constructions(definition)
    return found


HOOK_OF_TRAINERS = "get_train_dataloader"
"""The method by which a Trainer of Hugging Face's makes and prepares its loader (transformers/trainer.py)."""


def derived_trainers(program: Program) -> Iterator[ast.ClassDef]:
    """The classes of the program that are Trainers of Hugging Face's."""
    for definition in (each for file in program.files for each in file.classes):
        if not {program.qualified(each) for each in definition.bases}.isdisjoint(_TRAINERS):
            yield definition


_SAMPLED_BY_TRAINER = ("use_distributed_sampler", "replace_sampler_ddp")


def leaves_samplers_to_the_script(program: Program, trainer: ast.Call) -> bool:
    """Whether a Trainer of Lightning is told to insert no samplers."""
    told = [argument_of(trainer, name) for name in _SAMPLED_BY_TRAINER]
    return any(each is not None and program.value(each) == Constant(False) for each in told)


def trainers_of_several(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The Trainers of Lightning that may train on several devices."""
    for call, name in program.calls("lightning.pytorch.Trainer"):
        told = [argument_of(call, each) for each in ("devices", "accelerator")]
        values = [None if each is None else program.value(each) for each in told]
        if values[0] not in (Constant(1), Constant("1")) and values[1] != Constant("cpu"):
            yield call, name


_COUNTED = ("limit_train_batches", "max_steps", "overfit_batches", "fast_dev_run")


def trains_to_the_end(trainer: ast.Call) -> bool:
    """Whether a Trainer of Lightning takes all batches of its loaders."""
    return not has_star_arguments(trainer) and not any(argument_of(trainer, each) for each in _COUNTED)


def is_made_by_hook(program: Program, loader: ast.Call) -> bool:
    """Whether a hook of a class of Lightning makes the loader that its Trainer trains with."""
    function = scope_of(loader).function
    owner = None if function is None else class_of(function.node)
    hook = getattr(getattr(function, "node", None), "name", None)
    return owner is not None and hook == "train_dataloader" and _is_of_lightning(program, owner)


_ON_EVERY_RANK = frozenset({"setup", "configure_model", "configure_optimizers", "on_fit_start"}) | {
    f"{stage}_dataloader" for stage in ("train", "val", "test", "predict")
}
"""The hooks of a class of Lightning that its Trainer calls on every rank."""
_OF_LIGHTNING = ("lightning.pytorch.LightningDataModule", "lightning.pytorch.LightningModule")


def is_hook_of_all(program: Program, function: FunctionNode) -> bool:
    """Whether Lightning's Trainer runs a method on every rank, and nothing of its class on one before."""
    owner, name = class_of(function), getattr(function, "name", "")
    if owner is None or name not in _ON_EVERY_RANK or not _is_of_lightning(program, owner):
        return False
    own = {getattr(each, "name", "") for each in owner.body}
    return "prepare_data" not in own and any(file.calls_of.get(owner.name) for file in program.files)


def _is_of_lightning(program: Program, definition: ast.ClassDef, depth: int = 3) -> bool:
    """Whether a class is one of Lightning's, by its bases that do not prepare data themselves."""
    for each in map(program.value, definition.bases):
        if isinstance(each, External) and each.name in _OF_LIGHTNING:
            return True
        if depth and isinstance(each, Defined) and isinstance(each.node, ast.ClassDef):
            own = {getattr(one, "name", "") for one in each.node.body}
            if "prepare_data" not in own and _is_of_lightning(program, each.node, depth - 1):
                return True
    return False
