"""Which files of a folder are started by themselves, and train on several processes."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from launcher.scripts.index import FileIndex
from launcher.scripts.names import canonical
from launcher.scripts.program import Program
from launcher.scripts.reading import MOST_BYTES
from launcher.scripts.scopes import dotted_name

NOT_LOOKED_INTO = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "build"})
"""Folders of installed or built packages; hidden folders are not looked into either."""

MOST_FILES_BELOW = 20_000
"""So many files of one folder are looked at."""

MAIN = b"__main__"

_DISTRIBUTED = (
    "torch.distributed",
    "torch.nn.parallel",
    "torch.multiprocessing.spawn",
    "torch.utils.data.DistributedSampler",
    "torch_xla",
    "deepspeed",
    "horovod",
    "smdistributed",
    "accelerate",
    "lightning",
    "transformers.Trainer",
    "transformers.Seq2SeqTrainer",
    "trl",
    "mpi4py",
)
"""What only programs import that are meant for several processes."""


def python_files_below(folder: Path, excluded: Callable[[Path], bool] = lambda path: False) -> Iterator[Path]:
    """The Python files below a folder, in the order of their names; links to folders are not followed."""
    seen = 0
    for place, folders, names in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(
            name
            for name in folders
            if name[0] != "." and name not in NOT_LOOKED_INTO and not excluded(here / name)
        )
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES_BELOW:
                return
            if name.endswith(".py") and not excluded(here / name):
                yield here / name


def may_be_started(path: Path) -> bool:
    """Whether a file holds the words of a main guard, or cannot be read: a quick look before a full one."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return MAIN in file.read(MOST_BYTES)
    except OSError:
        return True


def has_main_guard(file: FileIndex) -> bool:
    """Whether a file has `if __name__ == "__main__":` in its own code."""
    return any(
        isinstance(statement, ast.If) and _asks_for_main(statement.test) for statement in file.tree.body
    )


def _asks_for_main(test: ast.expr) -> bool:
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = (test.left, test.comparators[0])
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides) and any(
        isinstance(side, ast.Constant) and side.value == "__main__" for side in sides
    )


def trains_distributed(program: Program) -> bool:
    """Whether a program imports, in any of its files, what only distributed training needs."""
    return any(_is_distributed(file) for file in program.files)


def _is_distributed(file: FileIndex) -> bool:
    if any(_is_meant(canonical(binding.module or "")) for binding in file.imports):
        return True
    return "DistributedDataParallel" in file.attributes or any(
        dotted_name(node) == "torch.distributed" for node in file.attributes.get("distributed", ())
    )


def _is_meant(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in _DISTRIBUTED)
