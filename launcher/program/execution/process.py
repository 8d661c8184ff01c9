"""What the models of Python's library and of others may ask and change of the process that runs a program."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from launcher.program.execution.objects import (
    CallMade,
    Environ,
    Module,
    Object,
    OpenedFile,
    ProcessEnded,
    Raised,
    RankWorld,
    Symbol,
)
from launcher.program.execution.statements import Statements

CODE_FOLDER = "/opt/ml/code"
"""Where a job's code lies, and where it is started."""
Packaged = Callable[[str], tuple[dict[str, Any], str | None] | None]
"""What a file of hydra's holds, with the package that its first line says; None where there is none."""


class Process(Statements):
    """One of the ranks of a job: who it is, what it is told, and what it has made of itself."""

    def __init__(self, world: RankWorld, documents: Callable[[str | None], Any], packaged: Packaged) -> None:
        """As one rank of a world. `documents` reads configuration files of the program by their names,
        `packaged` those of hydra."""
        super().__init__()
        self.world, self.documents, self.packaged = world, documents, packaged
        self.python: dict[str, object] = {}
        """What Python has of its own names."""
        self.folder = CODE_FOLDER
        """The folder in which it runs, open or with an open part where nobody knows its name."""
        self.stored: dict[str, Any] = {}
        """The configurations that the program gives hydra by their names, and by none where its files are."""
        self.words = world.words
        self.environ = Environ(world.environment)
        self.group: CallMade | None = None
        """What made the process group, once there is one."""
        self.at_exit: list[tuple[object, list[Any], dict[str, Any], ast.Call]] = []
        """What Python calls at the end: a function, its arguments, and the call that registers it."""
        self.device: object = 0
        self.events: list[CallMade] = []
        self.sampling: list[CallMade] = []
        """The calls of the workers of its loaders."""
        self._sampled: list[Object] = []
        self.callers: list[ast.Call] = []
        self.read_documents: list[str] = []
        """The names of the configuration files that it has read."""
        self.options: dict[str, ast.Call] = {}
        """Where the options are declared that its parsers know, by the names of their values."""
        self.opened: OpenedFile | None = None
        """The file that was opened last to be read."""
        self.lacks: Callable[[str], bool] = lambda module: False
        """Which modules nothing brings that the job installs."""

    @abstractmethod
    def module(self, name: str) -> Module | None:
        """A module of the program, run when it is first imported."""

    @property
    @abstractmethod
    def script(self) -> str:
        """The program's file, as the command names it."""

    @abstractmethod
    def entries(self, folder: str) -> list[str]:
        """The names in a folder of the program's modules, by its path in the job; none of any other."""

    @abstractmethod
    def path_of(self, node: ast.AST) -> str:
        """The path of the file in which something stands, in the job."""

    @abstractmethod
    def imported(self, name: str, node: ast.AST) -> object:
        """What an import gives: a module of the program, or the name of a library."""

    def take_sample(self, dataset: object, node: ast.AST) -> None:
        """Do what the workers of a loader do with its dataset, once, and keep their calls apart."""
        if not isinstance(dataset, Object) or dataset in self._sampled:
            return
        self._sampled.append(dataset)
        events, keys, self.events, self.keys = self.events, self.keys, [], set()
        try:
            if self.call_method(dataset, "__getitem__", [Symbol()], node) is NotImplemented:
                self.call_method(dataset, "__iter__", [], node)
        except (Raised, ProcessEnded):
            pass  # Its data have what nobody knows here.
        finally:
            self.sampling += self.events
            self.events, self.keys = events, keys

    def record(
        self,
        name: str,
        args: tuple[Any, ...],
        node: ast.Call,
        keywords: dict[str, Any] | None = None,
        owner: object = None,
    ) -> CallMade:
        """Keep that something of a library was called, or that a variable of the environment was set."""
        made = CallMade(
            name,
            node,
            args,
            {} if keywords is None else keywords,
            owner,
            tuple(self.tests),
            tuple(self.callers),
            self.is_tried(),
            self.period,
            self.turns,
            self.folder,
        )
        self.events.append(made)
        return made

    @abstractmethod
    def set_attribute(self, owner: Any, name: str, value: object, node: ast.AST | None = None) -> None:
        """Give an attribute of anything a value."""
