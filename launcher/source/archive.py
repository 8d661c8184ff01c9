"""The archive of a source, ours or the user's: what it holds byte by byte, and the digest of that.

The digest is known without building anything, and whoever has the archive can compute it, the boot in the
container for one: `gunzip -c source.tar.gz | sha256sum`. It is not taken over the compressed file, which is
another one wherever another zlib compresses.

A source that is packed already (tar.gz) is looked at as what it may be: somebody's bomb. It is read once,
from its first byte to its last, unpacked nowhere, and goes to the hosts as it is. What the boot would refuse
(`slipway/source.py`) is a problem here, before any host is paid for.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from launcher.frozen import frozen
from launcher.source.folder_walk import MOST_PROBLEMS, MOST_SOURCE_BYTES, SourceError, SourceFile
from launcher.text.regular_files import open_regular, read_regular
from launcher.text.values import size_in_words

if TYPE_CHECKING:
    import tarfile

OnRead = Callable[[int, int], None]
"""Told again and again how many bytes of a source have been read, and how many there are."""

_READ_BYTES = 1024 * 1024
_BLOCK = 512
"""What a member is filled up to (POSIX.1-2001, pax: ustar interchange format)."""


def archive_blocks(files: Sequence[SourceFile]) -> Iterator[bytes]:
    """The archive (pax) of files as they lie there, piece by piece, in the order in which they are given.

    Of a file it holds the name, the content and whether it is executable; owners and times do not count.
    Raises SourceError where a file cannot be read, or is no longer as long as it was.
    """
    for file in files:
        try:
            yield _member_header(file)
            yield from _member_content(file)
        except OSError as error:
            raise unreadable_file(file.path, error) from error
        yield bytes(-file.size % _BLOCK)
    yield bytes(2 * _BLOCK)


@frozen
class ArchiveDigest:
    """The SHA-256, in hexadecimal, of an archive before it is compressed, and how many bytes that are."""

    sha256: str
    size: int


def digest_archive(files: Sequence[SourceFile], on_read: OnRead | None = None) -> ArchiveDigest:
    """The digest of the archive of files. Raises SourceError as `archive_blocks` does."""
    digest = hashlib.sha256()
    total, read = sum(file.size for file in files), 0
    for block in archive_blocks(files):
        digest.update(block)
        read += len(block)
        if on_read is not None:
            on_read(min(read, total), total)
    return ArchiveDigest(digest.hexdigest(), read)


def read_first_bytes(file: SourceFile, most: int) -> bytes:
    """The first bytes of a file of a source folder, `most` of them at most. Raises SourceError."""
    try:
        return read_regular(file.path, most)
    except OSError as error:
        raise unreadable_file(file.path, error) from error


def _member_header(file: SourceFile) -> bytes:
    import tarfile  # here: what is only shown, as by --help, needs none

    member = tarfile.TarInfo(file.name)
    member.size = file.size
    member.mode = 0o755 if file.executable else 0o644
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _member_content(file: SourceFile) -> Iterator[bytes]:
    """Exactly as many bytes as the header says."""
    left = file.size
    with open_regular(file.path) as content:
        while left:
            data = content.read(min(left, _READ_BYTES))
            if not data:
                raise OSError("it has become shorter since the folder was read")
            left -= len(data)
            yield data
        if content.read(1):
            raise OSError("it has grown since the folder was read")


def unreadable_file(path: Path, error: Exception) -> SourceError:
    """What is told of a file of the source that cannot be read."""
    return SourceError(
        f"{path} cannot be packed: {getattr(error, 'strerror', None) or error}.",
        "Make it readable and leave it as it is during the launch, or name it in .slipwayignore.",
    )


# A source that is packed already (tar.gz).


SUFFIXES = (".tar.gz", ".tgz")
"""What the name of a packed source ends in."""

MOST_MEMBERS = 100_000
"""More are no code; the boot keeps a record of each in memory."""

MOST_KEPT = 1_000_000
"""Bytes of a text file that is kept for those who look into the code."""

_MOST_KEPT_TOGETHER = 50_000_000
_KEPT_SUFFIXES = frozenset({".py", ".sh", ".txt", ".in", ".toml", ".cfg", ".yaml", ".yml", ".json"})
_MOST_NAME, _MOST_PART = 4_000, 255
"""Bytes that Linux takes (limits.h, PATH_MAX less what is above the code, and NAME_MAX)."""

_MOST_READ_AT_ONCE = 4 * 1024 * 1024
_INFLATE_BYTES = 1024 * 1024


@frozen
class PackedSource:
    """What a packed source holds; `kept` is the content of its small text files, by name.

    `digest` is None where there are `problems`.
    """

    files: tuple[SourceFile, ...]
    kept: Mapping[str, bytes]
    digest: ArchiveDigest | None
    problems: tuple[SourceError, ...]


def read_packed(
    stream: BinaryIO, shown: str, path: Path, size: int, on_read: OnRead | None = None
) -> PackedSource:
    """Read an archive of `size` bytes; `shown` is what messages call it, `path` where it lies.

    Never raises for what the stream holds: that is a problem.
    """
    import tarfile  # here: what is only shown, as by --help, needs none
    import zlib

    inventory = _Inventory(shown, path)
    content = _Content(_Counted(stream, size, on_read))
    try:
        # `r:` takes the stream as it is: what is compressed within is no member of ours.
        with tarfile.open(fileobj=content, mode="r:") as archive:  # type: ignore[call-overload]
            for member in _members(archive):
                if len(inventory.files) == MOST_MEMBERS:
                    raise _TooMuch(f"it holds more than {MOST_MEMBERS:,} files")
                inventory.add_member(member, archive)
        content.read_to_end()
    except _TooMuch as error:
        inventory.add_problem(str(error))
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        inventory.add_problem(f"it cannot be read as tar.gz: {error}")
    return inventory.make_result(content)


class _TooMuch(Exception):
    """More than code can be."""


class _Counted(io.RawIOBase):
    """The compressed bytes, counted for whoever waits."""

    def __init__(self, stream: BinaryIO, size: int, on_read: OnRead | None) -> None:
        self._stream, self._size, self._on_read, self._done = stream, size, on_read, 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._done += len(data)
        if self._on_read is not None:
            self._on_read(min(self._done, self._size), self._size)
        return data


class _Content:
    """What is compressed in an archive, read forwards alone, hashed on the way, and never without end."""

    def __init__(self, compressed: io.RawIOBase) -> None:
        self.digest = hashlib.sha256()
        self.position = 0
        self._content = gzip.GzipFile(fileobj=compressed, mode="rb")

    def read(self, size: int) -> bytes:
        if size > _MOST_READ_AT_ONCE:
            # tarfile reads the headers of a member whole, however long they say that they are.
            raise _TooMuch(f"it holds a header of {size_in_words(size)}")
        data = self._content.read(size)
        self.digest.update(data)
        self.position += len(data)
        if self.position > MOST_SOURCE_BYTES:
            raise _TooMuch(
                f"it holds more than {size_in_words(MOST_SOURCE_BYTES)}; every host would unpack them"
            )
        return data

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        if position < self.position:
            raise OSError("its members overlap")
        while self.position < position:
            if not self.read(min(position - self.position, _INFLATE_BYTES)):
                raise EOFError("it ends within a file")

    def read_to_end(self) -> None:
        """Read what comes behind the last member: it belongs to the digest."""
        while self.read(_INFLATE_BYTES):
            pass


class _Inventory:
    """What has been found so far."""

    def __init__(self, shown: str, path: Path) -> None:
        self.files: dict[str, SourceFile] = {}
        self._kept: dict[str, bytes] = {}
        self._room = _MOST_KEPT_TOGETHER
        self._reasons: list[str] = []
        self._shown, self._path = shown, path

    def add_problem(self, reason: str) -> None:
        self._reasons.append(reason)

    def add_member(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        reason = _why_refused(member)
        name = str(PurePosixPath(member.name))
        if reason is None and member.isfile() and name in self.files:
            reason = "twice"
        if reason is not None:
            self.add_problem(f"it holds {member.name[:200]!r} {reason}")
        elif member.isfile():
            self.files[name] = SourceFile(name, self._path, member.size, bool(member.mode & 0o100))
            if PurePosixPath(name).suffix in _KEPT_SUFFIXES and member.size <= min(MOST_KEPT, self._room):
                content = archive.extractfile(member)
                self._kept[name] = b"" if content is None else content.read(member.size)
                self._room -= member.size

    def make_result(self, content: _Content) -> PackedSource:
        files = tuple(sorted(self.files.values(), key=lambda file: file.name.split("/")))
        self._reasons += [
            f"it holds {name!r} both as a file and as a folder" for name in _files_used_as_folders(self.files)
        ]
        if not files and not self._reasons:
            self.add_problem("it holds no files")
        reasons = self._reasons[:MOST_PROBLEMS]
        if len(self._reasons) > MOST_PROBLEMS:
            reasons.append(f"there are {len(self._reasons) - MOST_PROBLEMS} more such problems")
        problems = tuple(
            SourceError(f"the source archive {self._shown} cannot be used: {reason}.", _REMEDY)
            for reason in reasons
        )
        digest = None if problems else ArchiveDigest(content.digest.hexdigest(), content.position)
        return PackedSource(files, self._kept, digest, problems)


_REMEDY = (
    "Pack the folder of the code again, its files alone: tar -czf source.tar.gz --dereference -C FOLDER . "
    "Or give the folder as `code.source_dir`."
)


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := archive.next()) is not None:
        yield member
        # tarfile keeps them all; a hundred thousand are enough.
        archive.members.clear()  # type: ignore[attr-defined]


def _why_refused(member: tarfile.TarInfo) -> str | None:
    """What keeps a member from being unpacked on a host, behind its name; None for what may be."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        return ", a path outside of its folder"
    if not (member.isfile() or member.isdir()) or member.issparse():
        return ", which is neither a plain file nor a folder"
    name = member.name.encode("utf-8", "surrogateescape")
    if len(name) > _MOST_NAME or any(len(part) > _MOST_PART for part in name.split(b"/")):
        return ", a name too long for a file"
    return None


def _files_used_as_folders(files: Mapping[str, SourceFile]) -> list[str]:
    """The files in which others would have to lie."""
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    return sorted(folders & files.keys())
