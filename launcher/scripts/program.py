"""A program, and what its expressions are."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from launcher.scripts.evaluation import Evaluation
from launcher.scripts.guards import Guards
from launcher.scripts.index import FileIndex
from launcher.scripts.loops import Loops
from launcher.scripts.names import canonical
from launcher.scripts.reach import Reach
from launcher.scripts.scopes import file_of
from launcher.scripts.summaries import Summaries
from launcher.scripts.values import External, Instance, Value, alternatives


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be read as Python: why, and at which line and column where that is known."""

    path: Path
    reason: str
    line: int = 1
    column: int = 1


@dataclass(eq=False)
class Program:
    """What runs when `entry` is started: itself and the files below `root` that it imports, in that order.

    `unread` are those among them that are no readable Python. `modules` are the files by their dotted names,
    as the program's imports name them.
    """

    entry: FileIndex
    root: Path
    files: tuple[FileIndex, ...]
    unread: tuple[Unread, ...] = ()
    modules: dict[str, FileIndex] = field(default_factory=dict)
    _names: dict[FileIndex, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Name each file by the first name that an import gives it."""
        for name, file in self.modules.items():
            self._names.setdefault(file, name)

    @cached_property
    def evaluation(self) -> Evaluation:
        """What the expressions of the program are."""
        return Evaluation(self)

    @cached_property
    def guards(self) -> Guards:
        """Which tests of the program differ between ranks."""
        return Guards(self.evaluation)

    @cached_property
    def loops(self) -> Loops:
        """The training loops of the program, its loaders and who owns them."""
        return Loops(self)

    @cached_property
    def reach(self) -> Reach:
        """What of the program its entry may come to."""
        return Reach(self)

    @cached_property
    def summaries(self) -> Summaries:
        """What the functions of the program run, and where its ranks part."""
        return Summaries(self)

    def value(self, node: ast.expr) -> Value:
        """What an expression is, wherever its function is called from; UNKNOWN where that is not sure."""
        return self.evaluation.value(node)

    def qualified(self, node: ast.expr) -> str | None:
        """The one dotted name of what an expression of a library is, through imports and assignments.

        `torch.distributed.barrier` for `dist.barrier`; for an attribute of an object its class goes first:
        `torch.utils.data.DistributedSampler.set_epoch`; for a call the name of what was called. None of the
        program's own things and of what is unknown.
        """
        names = {_name(each) for each in alternatives(self.value(node))}
        return names.pop() if len(names) == 1 else None

    def calls(self, *names: str) -> Iterator[tuple[ast.Call, str]]:
        """The calls of the program whose callee has one of these qualified names, with that name."""
        wanted = {canonical(name) for name in names}
        lasts = self.known_as({name.rpartition(".")[2] for name in wanted})
        for file in self.mentioning(*lasts):
            for last in sorted(lasts):
                for call in file.calls_of.get(last, ()):
                    name = self.qualified(call.func)
                    if name in wanted:
                        yield call, name

    def known_as(self, lasts: set[str]) -> set[str]:
        """These last names, and those that imports and assignments of the program give to what has them."""
        known = set(lasts)
        for _ in range(3):  # So often at most is one thing renamed.
            known |= {alias for last in known for alias in self._aliases.get(last, ())}
        return known

    def mentioning(self, *lasts: str) -> list[FileIndex]:
        """The files that read, set or import something of one of these last names, in the program's order.

        Of hundreds of files few do, and only these are worth looking into.
        """
        if len(lasts) == 1:
            return self._mentions.get(lasts[0], [])
        found = {file for last in lasts for file in self._mentions.get(last, ())}
        return sorted(found, key=self._positions.__getitem__)

    @cached_property
    def _mentions(self) -> dict[str, list[FileIndex]]:
        found: dict[str, list[FileIndex]] = {}
        for file in self.files:
            for name in file.mentioned:
                found.setdefault(name, []).append(file)
        return found

    @cached_property
    def _positions(self) -> dict[FileIndex, int]:
        return {file: number for number, file in enumerate(self.files)}

    @cached_property
    def _aliases(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for file in self.files:
            for last, names in file.aliases.items():
                found.setdefault(last, set()).update(names)
        return found

    def module(self, name: str, importer: FileIndex) -> FileIndex | None:
        """The file of an imported name, with a dot in front for each level of a relative import."""
        return self.modules.get(absolute(name, self.module_name(importer), is_package(importer)))

    def module_name(self, file: FileIndex) -> str:
        """The dotted name of a file of the program; the entry's is that of its file."""
        return self._names.get(file, file.path.stem)

    def file(self, node: ast.AST) -> FileIndex:
        """The file in which a node stands."""
        return file_of(node)


def _name(value: Value) -> str | None:
    return value.name if isinstance(value, External | Instance) else None


def absolute(name: str, importer: str, importer_is_package: bool) -> str:
    """A relative import as an absolute one: `..layers.norm` of `models.vit.block` is `models.layers.norm`."""
    bare = name.lstrip(".")
    level = len(name) - len(bare)
    if not level:
        return name
    parents = importer.split(".") if importer else []
    up = level - 1 if importer_is_package else level
    kept = parents[: max(0, len(parents) - up)]
    return ".".join(part for part in (*kept, bare) if part)


def is_package(file: FileIndex) -> bool:
    """Whether a file is what an import of its folder runs."""
    return file.path.name == "__init__.py"
