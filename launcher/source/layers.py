"""The patterns that speak of what a folder holds: its own, and those of the folders above it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from launcher.source.errors import SourceError
from launcher.source.patterns import Layer, layers_in, what_is_said


class Layers:
    """The patterns of a source folder and of all below it, each folder's read once.

    What is in the way of reading them is added to `problems`.
    """

    def __init__(self, source_dir: Path, problems: list[SourceError]) -> None:
        self._source_dir = source_dir
        self._problems = problems
        self._known: dict[Path, Sequence[Layer]] = {}

    def above(self) -> list[Layer]:
        """The patterns of the repository above the source folder; none where they leave it out altogether."""
        parents = self._source_dir.parents
        root = next((folder for folder in parents if (folder / ".git").exists()), None)
        if root is None or (self._source_dir / ".git").exists():
            return []
        above = [folder for folder in parents if folder == root or root in folder.parents]
        layers = [layer for folder in reversed(above) for layer in self._own(folder)]
        for folder in (self._source_dir, *above[:-1]):
            match = what_is_said(folder, True, [layer for layer in layers if layer.folder in folder.parents])
            if match is not None and match.ignores:
                return []
        return layers

    def of(self, folder: Path) -> Sequence[Layer]:
        """All patterns that speak of what a folder below the source folder holds, visited or not."""
        unknown = [folder]
        while unknown[-1] not in self._known:
            unknown.append(unknown[-1].parent)
        for above, below in pairwise(reversed(unknown)):
            self.extended(below, self._known[above])
        return self._known[folder]

    def extended(self, folder: Path, above: Sequence[Layer]) -> Sequence[Layer]:
        """The patterns above a folder and its own ones, read once, however often it is visited."""
        if folder not in self._known:
            own = self._own(folder)
            self._known[folder] = (*above, *own) if own else above
        return self._known[folder]

    def _own(self, folder: Path) -> list[Layer]:
        try:
            return layers_in(folder)
        except SourceError as error:
            self._problems.append(error)
        except OSError as error:
            self._problems.append(unreadable(self._source_dir, error))
        return []


def unreadable(source_dir: Path, error: OSError) -> SourceError:
    """What is said of a file or a folder in the source that cannot be read."""
    return SourceError(
        f"the source folder {source_dir} cannot be read: {error.filename}: {error.strerror}.",
        "Make it readable, or leave it out by a line in .slipwayignore.",
    )
