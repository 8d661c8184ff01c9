"""The patterns of `.gitignore` and `.slipwayignore`: which paths they leave out, and which one says so.

Both have the same syntax (git documentation, gitignore). In one folder `.slipwayignore` comes after
`.gitignore` and so has the last word: it can leave out what git keeps, and bring back (`!generated.py`) what
git leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from launcher.documents.files import read_regular
from launcher.source.errors import SourceError
from launcher.text.sizes import size_in_words

IGNORE_FILES = (".gitignore", ".slipwayignore")

MOST_PATTERN_BYTES = 1_000_000
"""Of one ignore file; each of its patterns is held against each name."""


@dataclass(frozen=True, slots=True)
class Match:
    """The pattern that speaks of a path, the file that it stands in, and whether it leaves the path out."""

    ignores: bool
    pattern: str
    ignore_file: Path


@dataclass(frozen=True, slots=True)
class Layer:
    """The patterns of one folder, each with the file that it stands in; they speak of names below it."""

    folder: Path
    patterns: GitIgnoreSpec
    origins: Sequence[tuple[str, Path]]

    def match(self, path: Path, is_folder: bool) -> Match | None:
        """What is said of the path; the last pattern that fits it counts. None where none does."""
        name = path.relative_to(self.folder).as_posix()
        found = self.patterns.check_file(f"{name}/" if is_folder else name)
        if found.include is None or found.index is None:
            return None
        return Match(found.include, *self.origins[found.index])


def what_is_said(path: Path, is_folder: bool, layers: Sequence[Layer]) -> Match | None:
    """The nearest folder whose patterns speak of the path decides; `layers` begin with the topmost one."""
    matches = (layer.match(path, is_folder) for layer in reversed(layers))
    return next((match for match in matches if match is not None), None)


def layers_in(folder: Path) -> list[Layer]:
    """The patterns of a folder's own ignore files: one layer, or none.

    Raises SourceError for patterns that cannot be read or are too many, OSError for a file that cannot be.
    """
    origins: list[tuple[str, Path]] = []
    for file in (folder / name for name in IGNORE_FILES):
        if file.is_file():
            patterns = read_regular(file, MOST_PATTERN_BYTES + 1)
            if len(patterns) > MOST_PATTERN_BYTES:
                raise SourceError(
                    f"{file} has more than {size_in_words(MOST_PATTERN_BYTES)}: too many patterns to apply.",
                    "Leave whole folders out instead of each of their files.",
                )
            lines = patterns.decode("utf-8", errors="surrogateescape").splitlines()
            origins += [(line, file) for line in lines if line]
    if not origins:
        return []
    try:
        return [Layer(folder, GitIgnoreSpec.from_lines(line for line, _ in origins), origins)]
    except ValueError as error:
        raise SourceError(
            f"a pattern in {' or '.join(IGNORE_FILES)} of {folder} cannot be read: {error}.",
            "Correct it; the syntax is that of .gitignore.",
        ) from error
