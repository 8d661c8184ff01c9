"""What a job's code is: the source, read once for packing, for the rules and for what is shown."""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.documents.files import file_mode, open_regular
from launcher.source.archive import ArchiveDigest, OnRead, digest_of, first_bytes, unreadable
from launcher.source.errors import SourceError
from launcher.source.files import IgnoredPath, SourceFile
from launcher.source.left_out import why_left_out
from launcher.source.names import names_in
from launcher.source.packed import MOST_KEPT, SUFFIXES, PackedSource, read_packed
from launcher.source.requirements import RequirementsFile
from launcher.source.requirements_reader import read_requirements
from launcher.source.walking import walk
from launcher.text.sizes import size_in_words

_MOST_SCRIPTS = 20


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A source archive on S3: its URI, and the ETag of the object that was read, None where none was."""

    uri: str
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class SourceTree:
    """A source as it was when it was read, with the script that the job starts.

    `folder` is absolute: the source folder, or the archive where the source `is_packed` already. `exists`
    says whether it is there, `has_entry_point` whether the script is, which is no promise that it is packed.
    `files` are what is packed, `ignored` what is left out and why, `scripts` the Python files directly in the
    folder, `names` those of the names asked for that the packed code uses, `requirements` what the file asks
    for that is to be installed, None where it is not packed. `problems` are all that keep the source from
    being packed; `digest` is the SHA-256, in hexadecimal, of its archive before it is compressed, and None
    where there are problems, `archive_bytes` how long that is. `kept` is the content of an archive's small
    text files. `stored` is where an archive lies on S3; as long as it `is_unread`, nothing is known of it.
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
    archive_bytes: int = 0
    problems: tuple[SourceError, ...] = ()
    is_packed: bool = False
    kept: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    stored: StoredSource | None = None

    @property
    def place(self) -> str:
        """Where it lies, for messages: the path of the folder or archive, or the URI."""
        return self.stored.uri if self.stored else str(self.folder)

    @property
    def is_unread(self) -> bool:
        """Whether it lies on S3 and nobody has looked at it yet."""
        return self.stored is not None and self.stored.etag is None and not self.problems

    def check(self) -> None:
        """Raise the SourceError that keeps it from being packed, if there is one."""
        if self.problems:
            raise self.problems[0]
        if self.is_unread:
            raise SourceError(
                f"the code at {self.place} was not fetched.",
                f"Fetch it (`aws s3 cp {self.place} .`) and name the file: --set code.source_dir=FILE.tar.gz",
            )

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
        return self._content(file, most)

    def uses(self, wanted: Collection[str]) -> frozenset[str]:
        """Those of the wanted names that the packed Python files use (`names_in`)."""
        return names_in(self.files, wanted, self._content)

    def requiring(self, name: str | None) -> SourceTree:
        """The tree with what the requirements file of that name asks for, where it is packed."""
        required = None if name is None else read_requirements(name, self.files, self._content)
        return replace(self, requirements=required)

    def _content(self, file: SourceFile, most: int) -> bytes:
        if not self.is_packed:
            return first_bytes(file, most)
        if file.name not in self.kept:
            raise SourceError(
                f"{file.name} in {self.folder} is not read: of an archive only text files of up to "
                f"{size_in_words(MOST_KEPT)} are.",
                "Give the folder of the code as `code.source_dir`.",
            )
        return self.kept[file.name][:most]

    def why_ignored(self, name: str) -> IgnoredPath | None:
        """What leaves out the file of that name: its own entry, or that of a folder above it."""
        return why_left_out(self.ignored, name)


def read_source(
    place: Path,
    entry_point: str,
    wanted: Collection[str] = (),
    requirements: str | None = None,
    on_read: OnRead | None = None,
) -> SourceTree:
    """Read a source folder, or an archive of one; `wanted` are the names to look for in its Python files,
    `requirements` the file that says what to install, relative to the folder.

    Looks at each folder once, reads every file that is packed once for the digest, and of the Python files
    as many as `names_in` bounds. Of more than `MOST_BYTES` it reads none. Never raises: what keeps
    the source from being packed are the tree's `problems`.
    """
    mode = file_mode(place)
    if stat.S_ISDIR(mode):
        return _folder(place.resolve(), entry_point, wanted, on_read).requiring(requirements)
    if stat.S_ISREG(mode) and place.name.endswith(SUFFIXES):
        return _archive(place.absolute(), entry_point, wanted, on_read).requiring(requirements)
    place = place.absolute()
    what = (
        f"the source {place} is neither a folder nor a .tar.gz"
        if mode
        else f"the source folder {place} is not there"
    )
    missing = SourceError(f"{what}.", "Correct `code.source_dir`.")
    return SourceTree(place, entry_point, exists=bool(mode), has_entry_point=False, problems=(missing,))


def unread_source(uri: str, entry_point: str) -> SourceTree:
    """The source at a URI of S3, of which nothing is known yet: what has no access to AWS goes on with it."""
    return SourceTree(
        Path(uri), entry_point, exists=True, has_entry_point=True, is_packed=True, stored=StoredSource(uri)
    )


def _folder(folder: Path, entry_point: str, wanted: Collection[str], on_read: OnRead | None) -> SourceTree:
    found = walk(folder)
    tree = SourceTree(
        folder=folder,
        entry_point=entry_point,
        exists=True,
        has_entry_point=stat.S_ISREG(file_mode(folder / entry_point)),
        files=found.files,
        ignored=found.ignored,
        scripts=found.scripts,
        names=names_in(found.files, wanted, first_bytes),
        problems=found.problems,
    )
    if tree.problems:
        return tree
    try:
        digest = digest_of(tree.files, on_read)
    except SourceError as error:
        return replace(tree, problems=(error,))
    return replace(tree, digest=digest.sha256, archive_bytes=digest.size)


def _archive(path: Path, entry_point: str, wanted: Collection[str], on_read: OnRead | None) -> SourceTree:
    try:
        with open_regular(path) as stream:
            found = read_packed(stream, str(path), path, path.stat().st_size, on_read)
    except OSError as error:
        problem = unreadable(path, error)
        return SourceTree(path, entry_point, exists=True, has_entry_point=False, problems=(problem,))
    return packed_tree(path, entry_point, wanted, found)


def packed_tree(path: Path, entry_point: str, wanted: Collection[str], found: PackedSource) -> SourceTree:
    """The tree of a source that is packed already, as it was found."""
    names = [file.name for file in found.files if file.name.endswith(".py")]
    tree = SourceTree(
        folder=path,
        entry_point=entry_point,
        exists=True,
        has_entry_point=False,
        files=found.files,
        # Many archives hold everything in one folder, as those of GitHub do.
        scripts=tuple([name for name in names if "/" not in name] or names[:_MOST_SCRIPTS]),
        problems=found.problems,
        is_packed=True,
        kept=found.kept,
    )
    used = tree.uses(wanted)
    digest = found.digest or ArchiveDigest("", 0)
    return replace(
        tree,
        has_entry_point=tree.packs_entry_point,
        names=used,
        digest=digest.sha256 or None,
        archive_bytes=digest.size,
    )
