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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from launcher.documents.files import read_regular
from launcher.source.errors import SourceError
from launcher.text.sizes import size_in_words

IGNORE_FILES = (".gitignore", ".slipwayignore")

SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", ".slipway"})
"""Never part of a job's code: history, caches, and what local runs leave."""

MOST_BYTES = 5_000_000_000
"""More than this is not code: every host downloads and unpacks all of it before it starts."""

MOST_PATTERN_BYTES = 1_000_000
"""Of one ignore file; each of its patterns is held against each name."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source folder: its name below it with slashes, and its size in bytes."""

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


@dataclass(frozen=True, slots=True)
class FolderWalk:
    """What one walk through a source folder found.

    `files` are those to be packed, sorted by their names' parts, `scripts` the names of all Python files
    directly in the folder, ignored ones too. `problem` is the first thing in the way of packing, else None;
    the files beside it are there all the same.
    """

    files: tuple[SourceFile, ...]
    ignored: tuple[IgnoredPath, ...]
    scripts: tuple[str, ...]
    problem: SourceError | None


def walk(source_dir: Path) -> FolderWalk:
    """Look at each folder below the source folder once; never raises, what is in the way is the `problem`.

    Looks at names and sizes and reads nothing but the ignore files; folders that are left out are not
    looked into. In the way of packing are a link or a special file that no pattern leaves out, what cannot
    be read, a folder without files, and more than MOST_BYTES.
    """
    walking = _Walking(source_dir)
    walking.begin()
    files = sorted(walking.files, key=_parts)
    return FolderWalk(
        files=tuple(files),
        ignored=tuple(walking.ignored),
        scripts=tuple(walking.scripts),
        problem=walking.problem or _problem_of_all(source_dir, files),
    )


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


@dataclass(frozen=True, slots=True)
class _Match:
    """The pattern that speaks of a path, the file that it stands in, and whether it leaves the path out."""

    ignores: bool
    pattern: str
    ignore_file: Path


@dataclass(frozen=True, slots=True)
class _Layer:
    """The patterns of one folder, each with the file that it stands in; they speak of names below it."""

    folder: Path
    patterns: GitIgnoreSpec
    origins: Sequence[tuple[str, Path]]

    def match(self, path: Path, is_folder: bool) -> _Match | None:
        """What is said of the path; the last pattern that fits it counts. None where none does."""
        name = path.relative_to(self.folder).as_posix()
        found = self.patterns.check_file(f"{name}/" if is_folder else name)
        if found.include is None or found.index is None:
            return None
        return _Match(found.include, *self.origins[found.index])


@dataclass(frozen=True, slots=True)
class _Visit:
    """A folder that was looked at: what it holds, by name, and the patterns that speak of it."""

    entries: Sequence[os.DirEntry[str]]
    layers: Sequence[_Layer]


class _Walking:
    """A walk under way: what it has found so far."""

    def __init__(self, source_dir: Path) -> None:
        self.files: list[SourceFile] = []
        self.ignored: list[IgnoredPath] = []
        self.scripts: list[str] = []
        self.problem: SourceError | None = None
        self._source_dir = source_dir

    def begin(self) -> None:
        """Take up the source folder and all below it, each folder's entries where it stands among others."""
        try:
            layers = self._layers_above()
        except OSError as error:
            self._meet(_unreadable(self._source_dir, error))
            layers = []
        top = self._visit(self._source_dir, layers)
        self.scripts = [entry.name for entry in top.entries if entry.name.endswith(".py")]
        # A stack of our own: folders may nest more deeply than calls.
        under_way = [(iter(top.entries), top.layers)]
        while under_way:
            entries, patterns = under_way[-1]
            entry = next(entries, None)
            if entry is None:
                under_way.pop()
                continue
            try:
                below = self._take(entry, patterns)
            except OSError as error:
                self._meet(_unreadable(self._source_dir, error))
                continue
            if below is not None:
                under_way.append((iter(below.entries), below.layers))

    def _visit(self, folder: Path, layers: Sequence[_Layer]) -> _Visit:
        """Look at a folder; `layers` are the patterns of the folders above."""
        layers = [*layers, *self._layer(folder)]
        try:
            with os.scandir(folder) as scan:
                return _Visit(sorted(scan, key=lambda entry: entry.name), layers)
        except OSError as error:
            self._meet(_unreadable(self._source_dir, error))
            return _Visit((), layers)

    def _layers_above(self) -> list[_Layer]:
        """The patterns of the repository above the source folder; none where they leave it out altogether."""
        parents = self._source_dir.parents
        root = next((folder for folder in parents if (folder / ".git").exists()), None)
        if root is None or (self._source_dir / ".git").exists():
            return []
        above = [folder for folder in parents if folder == root or root in folder.parents]
        layers = [layer for folder in reversed(above) for layer in self._layer(folder)]
        for folder in (self._source_dir, *above[:-1]):
            match = _match(folder, True, [layer for layer in layers if layer.folder in folder.parents])
            if match is not None and match.ignores:
                return []
        return layers

    def _take(self, entry: os.DirEntry[str], layers: Sequence[_Layer]) -> _Visit | None:
        """Take up what a folder holds; a folder that is not left out is looked at."""
        path, is_link = Path(entry.path), entry.is_symlink()
        is_folder = entry.is_dir() and not is_link
        if (is_folder or is_link) and entry.name in SKIPPED_FOLDERS:
            self.ignored.append(IgnoredPath(self._name(path, is_folder)))
            return None
        match = _match(path, is_folder, layers)
        if is_link and not (match and match.ignores):
            # For git a link to a folder is a file, but whoever writes `data/` means it as well.
            match = _match(path, True, layers)
        if match is not None and match.ignores:
            self.ignored.append(IgnoredPath(self._name(path, is_folder), match.pattern, match.ignore_file))
        elif is_link:
            self._meet(
                SourceError(
                    f"{path} is a symbolic link, which would point elsewhere in the container.",
                    "Replace it with what it points to, move it out of `code.source_dir`, or leave it out by "
                    "a line in .slipwayignore.",
                )
            )
        elif is_folder:
            return self._visit(path, layers)
        elif entry.is_file():
            status = entry.stat()
            executable = bool(status.st_mode & stat.S_IXUSR)
            self.files.append(SourceFile(self._name(path, False), path, status.st_size, executable))
        else:
            self._meet(
                SourceError(
                    f"{path} is neither a file nor a folder and cannot be packed.",
                    "Move it out of `code.source_dir`, or leave it out by a line in .slipwayignore.",
                )
            )
        return None

    def _layer(self, folder: Path) -> list[_Layer]:
        try:
            return _layer(folder)
        except SourceError as error:
            self._meet(error)
        except OSError as error:
            self._meet(_unreadable(self._source_dir, error))
        return []

    def _meet(self, problem: SourceError) -> None:
        """The first one is the one to tell; once it is solved, the next one shows."""
        self.problem = self.problem or problem

    def _name(self, path: Path, is_folder: bool) -> str:
        return path.relative_to(self._source_dir).as_posix() + ("/" if is_folder else "")


def _match(path: Path, is_folder: bool, layers: Sequence[_Layer]) -> _Match | None:
    """The nearest folder whose patterns speak of the path decides."""
    matches = (layer.match(path, is_folder) for layer in reversed(layers))
    return next((match for match in matches if match is not None), None)


def _layer(folder: Path) -> list[_Layer]:
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
        return [_Layer(folder, GitIgnoreSpec.from_lines(line for line, _ in origins), origins)]
    except ValueError as error:
        raise SourceError(
            f"a pattern in {' or '.join(IGNORE_FILES)} of {folder} cannot be read: {error}.",
            "Correct it; the syntax is that of .gitignore.",
        ) from error


def _problem_of_all(source_dir: Path, files: Sequence[SourceFile]) -> SourceError | None:
    if not files:
        return SourceError(
            f"the source folder {source_dir} holds no files that are not ignored.",
            "Correct `code.source_dir`, or the patterns in .gitignore and .slipwayignore.",
        )
    total = sum(file.size for file in files)
    if total <= MOST_BYTES:
        return None
    return SourceError(
        f"the source folder {source_dir} holds {size_in_words(total)}, most of it in "
        f"{sizes_in_words(largest(files))}; every host would download it.",
        "Leave data out by .slipwayignore and give it as an input, or correct `code.source_dir`.",
    )


def _unreadable(source_dir: Path, error: OSError) -> SourceError:
    return SourceError(
        f"the source folder {source_dir} cannot be read: {error.filename}: {error.strerror}.",
        "Make it readable, or leave it out by a line in .slipwayignore.",
    )


def _parts(file: SourceFile) -> tuple[str, ...]:
    return tuple(file.name.split("/"))
