"""Hooks of Lightning that its Trainer runs on every rank, as downloads in them then are."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from launcher.program.dataflow import argument_of
from launcher.program.index import FunctionNode, class_of
from launcher.program.program import Program
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
