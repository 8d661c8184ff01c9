"""Hooks of Lightning that its Trainer runs on every rank, as downloads in them then are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.program.dataflow import argument_of
from launcher.program.index import FunctionNode, class_of
from launcher.program.program import Program
from launcher.program.ranks.participants import Participants
from launcher.program.ranks.truths import Truth
from launcher.program.values import Constant, Defined, External


def trainers_of_several(program: Program) -> Iterator[tuple[ast.Call, str]]:
    """The Trainers of Lightning that may train on several devices."""
    for call, name in program.calls("lightning.pytorch.Trainer"):
        told = [argument_of(call, each) for each in ("devices", "accelerator")]
        values = [None if each is None else program.value(each) for each in told]
        if values[0] not in (Constant(1), Constant("1")) and values[1] != Constant("cpu"):
            yield call, name


_ON_EVERY_RANK = frozenset({"setup", "configure_model", "configure_optimizers", "on_fit_start"}) | {
    f"{stage}_dataloader" for stage in ("train", "val", "test", "predict")
}
"""The hooks of a class of Lightning that its Trainer calls on every rank."""
_OF_LIGHTNING = ("lightning.pytorch.LightningDataModule", "lightning.pytorch.LightningModule")


_STAGES = re.compile(r"on_\w+|(training|validation|test|predict)_(step|epoch_end)|(train|validation)_end")
"""The hooks that the Trainer calls on every rank as it trains, of a model as of a callback."""
_CALLED = (*_OF_LIGHTNING, "lightning.pytorch.Callback")


def is_called_while_training(program: Program, function: FunctionNode) -> bool:
    """Whether a method is a hook that Lightning's Trainer calls on every rank while it trains."""
    owner, name = class_of(function), getattr(function, "name", "")
    return (
        owner is not None
        and _STAGES.fullmatch(name) is not None
        and _is_below(program, owner, _CALLED)
        and any(file.calls_of.get(owner.name) for file in program.files)
    )


class HookParticipants(Participants):
    """Who runs a statement, where every rank runs the hooks that Lightning's Trainer calls."""

    def _ranks_calling(self, function: FunctionNode) -> Truth:
        found = super()._ranks_calling(function)
        plain = found is None and not getattr(function, "decorator_list", ())
        return True if plain and is_called_while_training(self.program, function) else found


def _is_below(program: Program, definition: ast.ClassDef, names: tuple[str, ...], depth: int = 3) -> bool:
    """Whether a class is made of one of these classes of a library."""
    bases = [*map(program.value, definition.bases)]
    return any(isinstance(each, External) and each.name in names for each in bases) or any(
        depth > 0
        and isinstance(each, Defined)
        and isinstance(each.node, ast.ClassDef)
        and _is_below(program, each.node, names, depth - 1)
        for each in bases
    )


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
