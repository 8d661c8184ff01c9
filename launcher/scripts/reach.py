"""What of a program its entry comes to, and whether it ever joins other processes.

A converter that imports a helper of the training has the training's functions in its files, and runs none
of them. Looked at by names, generously: a function is come to where its name is read, a class with all its
methods where its name is; what a decorator or a registry gets where those are read. What is not come to
surely never runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.scripts.distributed import starts
from launcher.scripts.names import canonical
from launcher.scripts.scopes import ancestors, dotted_name, file_of

if TYPE_CHECKING:
    from launcher.scripts.index import FileIndex
    from launcher.scripts.program import Program

_Name = tuple["FileIndex | None", str]
"""A name, and the file in which it means something; None where that may be any."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

_JOINING_LIBRARIES = (
    "lightning",
    "transformers.Trainer",
    "transformers.Seq2SeqTrainer",
    "trl",
    "accelerate",
    "colossalai",
    "megatron",
    "mpi4py",
    "ray",
    "smdistributed",
)
"""Libraries that make process groups of their own: who imports one may be joined to others by it."""

_TRAINERS = ("transformers.", "trl.", "lightning.", "deepspeed.")
"""Libraries whose loops run the backward pass themselves."""

_TRAINING = ("train", "fit", "train_batch")
"""What those loops are called: Trainer.train, Trainer.fit, engine.train_batch."""

_LEAVING_ALONE = ("torch", "functools", "contextlib", "dataclasses", "typing", "abc")
"""Where decorators come from that call nothing by themselves."""


class Reach:
    """What of a program its entry may come to."""

    def __init__(self, program: Program) -> None:
        """Nothing is looked at before somebody asks."""
        self.program = program

    @cached_property
    def _reached(self) -> set[ast.AST]:
        return _reached(self.program)

    @cached_property
    def is_alone(self) -> bool:
        """Whether the program surely stays one process: its calls that would join it are never come to."""
        calls = [call for call, _ in starts(self.program)]
        if not calls or any(file_of(call) is self.program.entry for call in calls):
            return False
        imported = (each.module or "" for file in self.program.files for each in file.imports)
        return not any(map(_joins, imported)) and not any(map(self.comes_to, calls))

    def joins_others(self, calls: Iterable[ast.Call]) -> bool:
        """Whether the entry may come to one of the calls that make a process group."""
        return any(map(self.comes_to, calls))

    def is_one_of_several(self, calls: Collection[ast.Call]) -> bool:
        """Whether the entry is meant to be one of several processes: it may come to one of the calls that
        make a process group, and makes it itself, or trains.

        What does neither is inference, a conversion or a look at data, and mostly one process, though it
        imports what can join others.
        """
        if not self.joins_others(calls):
            return False
        return any(file_of(call) is self.program.entry for call in calls) or self._trains

    @cached_property
    def _trains(self) -> bool:
        """Whether the entry may come to a backward pass, or hands its loop to a library that runs one."""
        files = self.program.files
        if any(self.comes_to(call) for file in files for call in file.calls_of.get("backward", ())):
            return True
        return any(
            (self.program.qualified(call.func) or "").startswith(_TRAINERS) and self.comes_to(call)
            for file in files
            for name in _TRAINING
            for call in file.calls_of.get(name, ())
        )

    def comes_to(self, node: ast.AST) -> bool:
        """Whether the entry may come to a statement or expression."""
        if file_of(node) is self.program.entry:
            return True
        outer = [node, *ancestors(node)]
        if any(isinstance(each, ast.If) and _asks_for_name(each.test) for each in outer):
            return False  # What a module does when it is started is not done when it is imported.
        definitions = [each for each in outer if isinstance(each, _DEFINITIONS)]
        return not definitions or definitions[-1] in self._reached

    def holds_line(self, path: str, line: int) -> bool:
        """Whether the entry may come to what stands in a line of one of the program's files."""
        file = next((each for each in self.program.files if str(each.path) == path), None)
        if file is None or file is self.program.entry:
            return True
        for part in file.tree.body:
            if part.lineno <= line <= (part.end_lineno or part.lineno):
                if isinstance(part, _DEFINITIONS):
                    return part in self._reached
                return not (isinstance(part, ast.If) and _asks_for_name(part.test))
        return True


def _joins(module: str) -> bool:
    name = canonical(module)
    return any(name == each or name.startswith(f"{each}.") for each in _JOINING_LIBRARIES)


def _reached(program: Program) -> set[ast.AST]:
    """The functions and classes of modules that the entry may come to."""
    read: dict[_Name, list[ast.AST]] = {}
    """What is come to where a name is read."""
    waiting: list[_Name] = []
    renamed: dict[str, set[str]] = {}
    readers = {file: _FileReads(program, file) for file in program.files}
    for file, reader in readers.items():
        for last, names in file.aliases.items():
            for name in names:
                renamed.setdefault(name, set()).add(last)
        for part in _own_parts(file, program.entry):
            keys = None if file is program.entry else _read_by(program, part)
            if keys is None:
                waiting += reader.read_in(part)
                keys = [part.name] if isinstance(part, _DEFINITIONS) else []
                waiting += [(file, key) for key in keys]
            for key in keys:
                read.setdefault((file, key), []).append(part)
                read.setdefault((None, key), []).append(part)
    found, seen = set[ast.AST](), set[_Name]()
    while waiting:
        asked = waiting.pop()
        if asked in seen:
            continue
        seen.add(asked)
        where, name = asked
        waiting += [(where, last) for last in renamed.get(name, ())]
        for part in read.get(asked, ()):
            if part not in found:
                found.add(part)
                waiting += readers[file_of(part)].read_in(part)
    return found


def _read_by(program: Program, part: ast.AST) -> list[str] | None:
    """The names by which a part of a module is come to; None where it runs, or may be called otherwise."""
    if isinstance(part, _DEFINITIONS):
        kept = [each for each in part.decorator_list if _may_call(program, each)]
        holders = [_holding(each) for each in kept]
        return None if None in holders else [part.name, *(each for each in holders if each)]
    if isinstance(part, ast.Assign) and not any(isinstance(each, ast.Call) for each in ast.walk(part.value)):
        return [name for target in part.targets for name in _names_in(target)]
    if isinstance(part, ast.Expr):
        holder = _holding(part.value)
        return None if holder is None else [holder]
    return None


def _holding(call: ast.expr) -> str | None:
    """`REGISTRY` of `REGISTRY.add(thing)`: the thing is come to where somebody else reads the registry."""
    called = call.func if isinstance(call, ast.Call) else call
    if not isinstance(called, ast.Attribute):
        return None
    return (dotted_name(called) or "").partition(".")[0] or None


def _own_parts(file: FileIndex, entry: FileIndex) -> Iterator[ast.AST]:
    """The definitions, and all else that a module runs when it is imported: no main guard but the entry's."""
    waiting: list[ast.AST] = list(file.tree.body)
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.If) and file is not entry and _asks_for_name(part.test):
            continue
        if isinstance(part, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            waiting += ast.iter_child_nodes(part)
        elif not _lists_exports(part):
            yield part


def _asks_for_name(test: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(test))


def _lists_exports(part: ast.AST) -> bool:
    """Whether a statement gives `__all__` its names, which reads none of them."""
    targets = part.targets if isinstance(part, ast.Assign) else [getattr(part, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets)


def _may_call(program: Program, decorator: ast.expr) -> bool:
    """Whether a decorator may keep what it gets, and call it by another way than its name."""
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (program.qualified(named) or "").partition(".")[0] not in _LEAVING_ALONE


def _names_in(target: ast.AST) -> Iterator[str]:
    """The names and attributes in what is assigned to."""
    for each in ast.walk(target):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


class _FileReads:
    """What the code of one file reads, by the file in which a name means something; None: in any."""

    def __init__(self, program: Program, file: FileIndex) -> None:
        own = {name.partition(".")[0] for name in program.modules}
        self.file = file
        self._imported: dict[str, str] = {}
        """What the file imports of the program, and what it is called there."""
        self._foreign: set[str] = set()
        for binding in file.imports:
            module = binding.module or "."
            if module.startswith(".") or module.partition(".")[0] in own:
                self._imported[binding.name] = module.rpartition(".")[2]
            else:
                self._foreign.add(binding.name)
        self._foreign -= self._imported.keys()

    def read_in(self, node: ast.AST) -> Iterator[_Name]:
        """The names that are read in something, and what texts there name.

        What another library's module has is nobody's here: `init` of `torch.nn.init.normal_` is no function
        of that name. A bare name means what its own file defines or imports, or imports with a star.
        """
        for each in ast.walk(node):
            if isinstance(each, ast.Name):
                if each.id not in self._foreign:
                    yield self.file, each.id
                    if self.file.stars:
                        yield None, each.id
                    if each.id in self._imported:
                        yield None, self._imported[each.id]
            elif isinstance(each, ast.Attribute):
                if (dotted_name(each) or "").partition(".")[0] not in self._foreign:
                    yield None, each.attr
            elif isinstance(each, ast.Constant) and isinstance(each.value, str) and len(each.value) < 200:
                yield None, each.value.rpartition(".")[2]
