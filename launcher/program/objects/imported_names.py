"""What imports of a program give their names: its own modules and what these hold, or things of libraries."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from launcher.program.index import Binding, FileIndex, ProgramFiles, file_of
from launcher.program.values import (
    RANK_ATTRIBUTES,
    UNKNOWN,
    Environment,
    External,
    ModuleOf,
    Value,
    canonical_name,
    library_names,
)

_KNOWN_BY_TABLES = library_names("known_by_tables")
"""What the tables of ranks and collectives tell all of, also where the library's source is in the program.

Its own examples and tests import it so, and its thousands of lines would have to be followed to the same end.
"""


def external(name: str) -> Value:
    """A thing of a library, by the one name that it has here."""
    name = canonical_name(name)
    is_rank = any(each in name for each in _HELD_OBJECTS) and name in RANK_ATTRIBUTES
    return RANK_ATTRIBUTES[name] if is_rank else External(name)


_HELD_OBJECTS = ("COMM_WORLD.", ".trainer.")
"""In the names of attributes of objects that a library holds, as `self.trainer.world_size`."""


class ImportedNames:
    """The imports of one program."""

    def __init__(
        self,
        files: ProgramFiles,
        any_of: Callable[[Sequence[Binding], Environment | None], Value],
    ) -> None:
        """Nothing is looked for before somebody asks; `any_of` says what a name with these bindings is."""
        self.files, self._any_of = files, any_of
        self._libraries: dict[Binding, Value] = {}

    def value(self, binding: Binding) -> Value:
        """What an import gives its name."""
        if isinstance(known := self._libraries.get(binding) or self._of_import(binding), External):
            self._libraries[binding] = known  # What is the program's own is known where it is bound.
        return known

    def _of_import(self, binding: Binding) -> Value:
        name = binding.module or ""
        if canonical_name(name) in _KNOWN_BY_TABLES:
            return external(name)
        module = self.files.module(name, file_of(binding.node))
        holder, held = self.held_elsewhere(binding)
        if held and (module is None or isinstance(binding.node, ast.ImportFrom)):
            return self._any_of(held, None)
        if module is not None:
            return ModuleOf(module)
        if holder is not None:
            return self.through_star(holder, name.rpartition(".")[2])
        return UNKNOWN if name.startswith(".") else external(name)

    def held_elsewhere(self, binding: Binding) -> tuple[FileIndex | None, list[Binding]]:
        """The file of the program from which a name is imported, and what is bound to it there."""
        name, file = binding.module or "", file_of(binding.node)
        package, _, last = name.rpartition(".")
        if last and name.startswith(".") and not package.strip("."):
            package = name[: len(name) - len(last)]
        holder = self.files.module(package, file) if last else None
        return (None, []) if holder in (None, file) else (holder, holder.module.bindings.get(last, []))

    def through_star(self, file: FileIndex, name: str, depth: int = 5) -> Value:
        """What a module has by this name of another one that it imports with `*`, which may import it so."""
        for module in filter(None, (self.files.module(star, file) for star in file.stars)):
            if name in module.module.bindings:
                return self._any_of(module.module.bindings[name], None)
            if depth and (found := self.through_star(module, name, depth - 1)) is not UNKNOWN:
                return found
        return UNKNOWN
