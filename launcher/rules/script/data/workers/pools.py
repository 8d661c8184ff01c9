"""What starts workers that read data in each process of a training, and what it has them run.

DataLoaders, the functions of libraries that make one, and the settings by which a trainer makes its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cached_property

from launcher.frozen import frozen
from launcher.program.dataflow import argument_of, given_argument, origins
from launcher.program.index import last_name
from launcher.program.program import Program
from launcher.program.values import External, library_names
from launcher.rules.script.data.loaders import Loaders

_LOADER_NAMES = ("loader", "loaders")
"""How a part of a library's name for it ends: WebLoader, create_loader, DataLoaders.from_csv."""
_SETTINGS = re.compile(r"\w+(?:Arguments|Config)")
"""What classes of a trainer's settings are called."""
_OF_TRAINERS = "dataloader_num_workers"
"""What a trainer's settings call the number of its loaders' workers."""
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
"""Trainers that may be given their settings, collate function and dataset by position."""
_OF_A_TRAINER = (("data_collator", 2), ("train_dataset", 3), ("eval_dataset", 4))
"""What a trainer is given for its workers, with the place in those of `_TRAINERS`."""
_SHARED_BY_A_HOST = library_names("host_loaders")


@frozen
class WorkerPool:
    """A call that has each process start workers: their number as it is written, the datasets that they read,
    and the functions that they run besides. `is_of_host` where the number is that of all processes of a host,
    `context` what says how they are started."""

    call: ast.Call
    workers: ast.expr
    datasets: tuple[ast.expr, ...] = ()
    functions: tuple[ast.expr, ...] = ()
    context: ast.expr | None = None
    is_of_host: bool = False


class WorkerPools:
    """What starts workers in one program."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked for before somebody asks."""
        self.program = program

    @cached_property
    def pools(self) -> tuple[WorkerPool, ...]:
        """The calls that say how many workers there are."""
        return (*self._of_loaders(), *self._of_libraries())

    def _of_loaders(self) -> Iterator[WorkerPool]:
        loaders = self.program.analysis(Loaders)
        for call in loaders.calls:
            workers = loaders.given(call, "num_workers")
            if workers is not None:
                yield self._like_loader(call, workers, loaders.given(call, "dataset"))

    def _like_loader(self, call: ast.Call, workers: ast.expr, dataset: ast.expr | None) -> WorkerPool:
        """What takes the arguments of a DataLoader."""
        loaders = self.program.analysis(Loaders)
        functions = (loaders.given(call, each) for each in ("collate_fn", "worker_init_fn"))
        return WorkerPool(
            call,
            workers,
            () if dataset is None else (dataset,),
            tuple(each for each in functions if each is not None),
            given_argument(self.program, call, "multiprocessing_context"),
            is_of_host=self.program.qualified(call.func) in _SHARED_BY_A_HOST,
        )

    def _of_libraries(self) -> Iterator[WorkerPool]:
        """The calls of libraries, other than of a DataLoader's class, that are told a number of workers."""
        if not any("num_workers" in file.text for file in self.program.files):
            return
        known = set(self.program.analysis(Loaders).calls)
        for call in (each for file in self.program.files for each in file.calls):
            told, last = {each.arg for each in call.keywords}, last_name(call.func) or ""
            if call in known or told.isdisjoint({"num_workers", _OF_TRAINERS, None}):
                continue
            sets = _SETTINGS.fullmatch(last)
            if not sets and told.isdisjoint({"num_workers"}) and not _names_a_loader(last):
                continue
            called = self.program.value(call.func)
            if not isinstance(called, External):
                continue
            if sets and (workers := given_argument(self.program, call, _OF_TRAINERS)) is not None:
                yield self._of_settings(call, workers)
            elif _names_a_loader(called.name):
                workers = given_argument(self.program, call, "num_workers")
                dataset = given_argument(self.program, call, "dataset") or argument_of(call, "dataset", 0)
                if workers is not None:
                    yield self._like_loader(call, workers, dataset)

    def _of_settings(self, call: ast.Call, workers: ast.expr) -> WorkerPool:
        """The settings of a trainer, with the datasets and collate functions of who gets them."""
        datasets: list[ast.expr] = []
        functions: list[ast.expr] = []
        for file in self.program.files:
            for trainer in file.calls:
                by_place = self.program.qualified(trainer.func) in _TRAINERS
                settings = argument_of(trainer, "args", 1 if by_place else None)
                if settings is None or call not in origins(self.program, settings):
                    continue
                given = {
                    key: argument_of(trainer, key, at if by_place else None) for key, at in _OF_A_TRAINER
                }
                functions += [each for key, each in given.items() if each is not None and "coll" in key]
                datasets += [each for key, each in given.items() if each is not None and "coll" not in key]
        return WorkerPool(call, workers, tuple(datasets), tuple(functions))


def _names_a_loader(name: str) -> bool:
    """Whether a library's name is of what makes loaders."""
    return any(part.lower().endswith(_LOADER_NAMES) for part in name.split("."))
