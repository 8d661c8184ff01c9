"""What a job's code is: the source folder, read once for packing, for the rules and for what is shown."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.documents.files import file_mode, read_regular
from launcher.source.archive import OnRead, digest_of, unreadable
from launcher.source.errors import SourceError
from launcher.source.files import IgnoredPath, SourceFile
from launcher.source.names import names_in
from launcher.source.requirements import RequirementsFile
from launcher.source.requirements_reader import read_requirements
from launcher.source.walking import walk


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source folder as it was when it was read, with the script that the job starts.

    `folder` is absolute; `exists` says whether it is there, `has_entry_point` whether the script is,
    which is no promise that it is packed. `files` are what is packed, `ignored` what is left out and why,
    `scripts` the Python files directly in the folder, `names` those of the names asked for that the packed
    code uses. `requirements` is what the file asks for that is to be installed, None where it is not packed.
    `problems` are all that keep the source from being packed; `digest` is the SHA-256, in
    hexadecimal, of its archive before it is compressed, and None where there are problems.
    """

    folder: Path
    entry_point: str
    exists: bool
    has_entry_point: bool
    files: tuple[SourceFile, ...] = ()
    ignored: tuple[IgnoredPath, ...] = ()
    scripts: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    requirements: RequirementsFile | None = None
    digest: str | None = None
    problems: tuple[SourceError, ...] = ()

    @property
    def size_bytes(self) -> int:
        """What is packed, before it is compressed."""
        return sum(file.size for file in self.files)

    @property
    def entry_point_name(self) -> str:
        """The entry point as the names of files are written: `./lib/../train.py` is `train.py`."""
        return posixpath.normpath(self.entry_point)

    @property
    def entry_point_is_outside(self) -> bool:
        """Whether the entry point leads out of the folder, so that it cannot be packed."""
        return posixpath.isabs(self.entry_point) or self.entry_point_name.startswith("../")

    @property
    def packs_entry_point(self) -> bool:
        """Whether the entry point is among the files that are packed."""
        return any(file.name == self.entry_point_name for file in self.files)

    def read(self, name: str, most: int) -> bytes:
        """The first bytes of a packed file, `most` of them at most.

        Raises KeyError for a name that is not packed, SourceError where the file cannot be read.
        """
        file = next((file for file in self.files if file.name == name), None)
        if file is None:
            raise KeyError(name)
        try:
            return read_regular(file.path, most)
        except OSError as error:
            raise unreadable(file.path, error) from error

    def why_ignored(self, name: str) -> IgnoredPath | None:
        """What leaves out the file of that name: its own entry, or that of a folder above it."""
        return next((each for each in self.ignored if _covers(each.name, name)), None)


def read_source(
    folder: Path,
    entry_point: str,
    wanted: Collection[str] = (),
    requirements: str | None = None,
    on_read: OnRead | None = None,
) -> SourceTree:
    """Read a source folder; `wanted` are the names to look for in its Python files, `requirements` the file
    that says what to install, relative to the folder.

    Looks at each folder once, reads every file that is packed once for the digest, and of the Python files
    as many as `names_in` bounds. Of more than `MOST_BYTES` it reads none. Never raises: what keeps
    the source from being packed are the tree's `problems`.
    """
    if not stat.S_ISDIR(file_mode(folder)):
        folder = folder.absolute()
        missing = SourceError(f"the source folder {folder} is not there.", "Correct `code.source_dir`.")
        return SourceTree(folder, entry_point, exists=False, has_entry_point=False, problems=(missing,))
    folder = folder.resolve()
    found = walk(folder)
    tree = SourceTree(
        folder=folder,
        entry_point=entry_point,
        exists=True,
        has_entry_point=stat.S_ISREG(file_mode(folder / entry_point)),
        files=found.files,
        ignored=found.ignored,
        scripts=found.scripts,
        names=names_in(found.files, wanted),
        requirements=None if requirements is None else read_requirements(requirements, found.files),
        problems=found.problems,
    )
    if tree.problems:
        return tree
    try:
        return replace(tree, digest=digest_of(tree.files, on_read))
    except SourceError as error:
        return replace(tree, problems=(error,))


def _covers(ignored: str, name: str) -> bool:
    return name.startswith(ignored) if ignored.endswith("/") else name == ignored
