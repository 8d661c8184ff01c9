"""What a source holds: files that are packed, and paths that are not, with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from launcher.text.sizes import size_in_words

MOST_BYTES = 5_000_000_000
"""More than this is not code: every host downloads and unpacks all of it before it starts."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source: its name below it with slashes, and its size in bytes.

    `path` is where its content lies: itself, what a link leads to, or the archive that holds it.
    """

    name: str
    path: Path
    size: int
    executable: bool


@dataclass(frozen=True, slots=True)
class IgnoredPath:
    """A file, or a folder (its name ends in a slash) with all that it holds, that is not packed.

    `pattern` of `ignore_file` leaves it out; both are None for the folders that are never packed.
    """

    name: str
    pattern: str | None = None
    ignore_file: Path | None = None


def largest(files: Iterable[SourceFile], count: int = 3) -> list[tuple[str, int]]:
    """The top-level files and folders (with a slash) that hold most, with their bytes, largest first."""
    sizes: Counter[str] = Counter()
    for file in files:
        first, slash, _ = file.name.partition("/")
        sizes[first + slash] += file.size
    return sizes.most_common(count)


def sizes_in_words(sizes: Iterable[tuple[str, int]]) -> str:
    """What `largest` found, for a message: `data/ (120 MB), train.py (2.1 kB)`."""
    return ", ".join(f"{name} ({size_in_words(size)})" for name, size in sizes)
