"""Which files of a source folder belong to a job: what git would keep, and no links.

`.gitignore` and `.slipwayignore` have the same syntax and are read in every folder, and in those above
the source folder up to the repository's root, as git does (git documentation, gitignore). In one
folder `.slipwayignore` comes after `.gitignore` and so has the last word: it can leave out what git keeps,
and bring back (`!generated.py`) what git leaves out.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from launcher.source.errors import SourceError
from launcher.text.sizes import size_in_words

IGNORE_FILES = (".gitignore", ".slipwayignore")

SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", ".slipway"})
"""Never part of a job's code: history, caches, and what local runs leave."""

MOST_BYTES = 5_000_000_000
"""More than this is no code: every host downloads and unpacks all of it before it starts."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source folder: its name below it with slashes, and its size in bytes."""

    name: str
    path: Path
    size: int
    executable: bool


def source_files(source_dir: Path) -> list[SourceFile]:
    """The files of a source folder that are packed, sorted by their names' parts.

    Looks at names and sizes and reads nothing but the ignore files. Raises SourceError for a folder
    that is missing or holds nothing, for a link or a special file that no pattern leaves out, and for
    more than 5 GB.
    """
    if not source_dir.is_dir():
        raise SourceError(f"the source folder {source_dir} is not there.", "Correct `code.source_dir`.")
    try:
        files = sorted(_files(source_dir, source_dir, _layers_above(source_dir)), key=_parts)
    except OSError as error:
        raise SourceError(
            f"the source folder {source_dir} cannot be read: {error.filename}: {error.strerror}.",
            "Make it readable, or leave it out by a line in .slipwayignore.",
        ) from error
    if not files:
        raise SourceError(
            f"the source folder {source_dir} holds no files that are not ignored.",
            "Correct `code.source_dir`, or the patterns in .gitignore and .slipwayignore.",
        )
    total = sum(file.size for file in files)
    if total > MOST_BYTES:
        raise SourceError(
            f"the source folder {source_dir} holds {size_in_words(total)}, most of it in "
            f"{_listed(largest(files))}; every host would download it.",
            "Leave data out by .slipwayignore and give it as an input, or correct `code.source_dir`.",
        )
    return files


def largest(files: Iterable[SourceFile], count: int = 3) -> list[tuple[str, int]]:
    """The top-level files and folders (with a slash) that hold most, with their bytes, largest first."""
    sizes: Counter[str] = Counter()
    for file in files:
        first, slash, _ = file.name.partition("/")
        sizes[first + slash] += file.size
    return sizes.most_common(count)


@dataclass(frozen=True, slots=True)
class _Layer:
    """The patterns of one folder; they speak of names below it."""

    folder: Path
    patterns: GitIgnoreSpec

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """Whether the path is ignored, or None where no pattern speaks of it."""
        name = path.relative_to(self.folder).as_posix()
        return self.patterns.check_file(f"{name}/" if is_folder else name).include


def _files(folder: Path, source_dir: Path, layers: Sequence[_Layer]) -> Iterator[SourceFile]:
    layers = [*layers, *_layer(folder)]
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_symlink():
            # For git a link to a folder is a file, but whoever writes `data/` means it as well.
            if entry.name in SKIPPED_FOLDERS or _ignored(path, False, layers) or _ignored(path, True, layers):
                continue
            raise SourceError(
                f"{path} is a symbolic link, which would point elsewhere in the container.",
                "Replace it by what it points to, move it out of `code.source_dir`, or leave it out by a "
                "line in .slipwayignore.",
            )
        is_folder = entry.is_dir()
        if (is_folder and entry.name in SKIPPED_FOLDERS) or _ignored(path, is_folder, layers):
            continue
        if is_folder:
            yield from _files(path, source_dir, layers)
        elif entry.is_file():
            status = entry.stat()
            name = path.relative_to(source_dir).as_posix()
            yield SourceFile(name, path, status.st_size, bool(status.st_mode & stat.S_IXUSR))
        else:
            raise SourceError(
                f"{path} is neither a file nor a folder and cannot be packed.",
                "Move it out of `code.source_dir`, or leave it out by a line in .slipwayignore.",
            )


def _ignored(path: Path, is_folder: bool, layers: Sequence[_Layer]) -> bool:
    """The nearest folder whose patterns speak of the path decides."""
    for layer in reversed(layers):
        verdict = layer.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _layers_above(source_dir: Path) -> list[_Layer]:
    """The patterns of the repository above the source folder; none where they leave it out altogether."""
    root = next((folder for folder in source_dir.parents if (folder / ".git").exists()), None)
    if root is None or (source_dir / ".git").exists():
        return []
    above = [folder for folder in source_dir.parents if folder == root or root in folder.parents]
    layers = [layer for folder in reversed(above) for layer in _layer(folder)]
    for folder in (source_dir, *above[:-1]):
        if _ignored(folder, True, [layer for layer in layers if layer.folder in folder.parents]):
            return []
    return layers


def _layer(folder: Path) -> list[_Layer]:
    lines: list[str] = []
    for name in IGNORE_FILES:
        file = folder / name
        if file.is_file():
            lines += file.read_text("utf-8", errors="surrogateescape").splitlines()
    if not lines:
        return []
    try:
        return [_Layer(folder, GitIgnoreSpec.from_lines(lines))]
    except ValueError as error:
        raise SourceError(
            f"a pattern in {' or '.join(IGNORE_FILES)} of {folder} cannot be read: {error}.",
            "Correct it; the syntax is that of .gitignore.",
        ) from error


def _parts(file: SourceFile) -> tuple[str, ...]:
    return tuple(file.name.split("/"))


def _listed(sizes: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} ({size_in_words(size)})" for name, size in sizes)
