"""The methods that the trainers of libraries call in every training, of classes that derive from theirs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.program.index import FunctionNode, class_of
from launcher.program.objects.hooks import library_bases
from launcher.program.program import Program

_OF_LIGHTNING = ("setup", "on_fit_start", "on_train_start", "on_train_epoch_start", "on_train_batch_start")
_OF_TRANSFORMERS = ("on_train_begin", "on_epoch_begin", "on_step_begin", "on_step_end", "on_epoch_end")
_HOOKS = (
    ("lightning.pytorch.", _OF_LIGHTNING, ("lightning.pytorch.Trainer.fit",)),
    ("transformers.", _OF_TRANSFORMERS, ("transformers.Trainer.train", "transformers.Seq2SeqTrainer.train")),
)
"""How the names of a library's classes begin, the hooks of them, and what calls these.

Source: lightning 2.6, pytorch/trainer/trainer.py (`_run`) and loops/fit_loop.py; transformers 5.23,
trainer_callback.py (`CallbackHandler`)."""


def training_calls(program: Program, owner: ast.ClassDef, name: str) -> Iterator[ast.Call]:
    """The calls of a library's trainer in which it calls this method of a class, on every rank."""
    for library, hooks, starters in _HOOKS:
        bases = library_bases(owner, program.value) if name in hooks else ()
        if any(base.startswith(library) for base in bases):
            yield from (call for call, _ in program.calls(*starters))


_STAGES = re.compile(r"on_\w+|(training|validation|test|predict)_(step|epoch_end)|(train|validation)_end")
"""The hooks that the Trainer calls on every rank as it trains, of a model as of a callback."""
_CALLED = frozenset(
    f"lightning.pytorch.{name}" for name in ("LightningDataModule", "LightningModule", "Callback")
)


def is_called_while_training(program: Program, function: FunctionNode) -> bool:
    """Whether a method is a hook that Lightning's Trainer calls on every rank while it trains."""
    owner, name = class_of(function), getattr(function, "name", "")
    if (
        owner is None
        or not _STAGES.fullmatch(name)
        or _CALLED.isdisjoint(library_bases(owner, program.value))
    ):
        return False
    return any(file.calls_of.get(owner.name) for file in program.files)
