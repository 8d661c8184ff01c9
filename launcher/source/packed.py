"""A source that is packed already (tar.gz), looked at as what it may be: somebody's bomb.

It is read once, from its first byte to its last, unpacked nowhere, and goes to the hosts as it is. What the
boot would refuse (`slipway/source.py`) is a problem here, before any host is paid for.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from launcher.source.archive import ArchiveDigest, OnRead
from launcher.source.errors import SourceError
from launcher.source.files import MOST_BYTES, SourceFile
from launcher.source.walking import MOST_PROBLEMS
from launcher.text.sizes import size_in_words

if TYPE_CHECKING:
    import tarfile

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

_MOST_AT_ONCE = 4 * 1024 * 1024
_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True)
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
                inventory.take(member, archive)
        content.drain()
    except _TooMuch as error:
        inventory.refuse(str(error))
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        inventory.refuse(f"it cannot be read as tar.gz: {error}")
    return inventory.result(content)


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
        if size > _MOST_AT_ONCE:
            # tarfile reads the headers of a member whole, however long they say that they are.
            raise _TooMuch(f"it holds a header of {size_in_words(size)}")
        data = self._content.read(size)
        self.digest.update(data)
        self.position += len(data)
        if self.position > MOST_BYTES:
            raise _TooMuch(f"it holds more than {size_in_words(MOST_BYTES)}; every host would unpack them")
        return data

    def tell(self) -> int:
        return self.position

    def seek(self, position: int) -> None:
        if position < self.position:
            raise OSError("its members overlap")
        while self.position < position:
            if not self.read(min(position - self.position, _CHUNK)):
                raise EOFError("it ends within a file")

    def drain(self) -> None:
        """Read what comes behind the last member: it belongs to the digest."""
        while self.read(_CHUNK):
            pass


class _Inventory:
    """What has been found so far."""

    def __init__(self, shown: str, path: Path) -> None:
        self.files: dict[str, SourceFile] = {}
        self._kept: dict[str, bytes] = {}
        self._room = _MOST_KEPT_TOGETHER
        self._reasons: list[str] = []
        self._shown, self._path = shown, path

    def refuse(self, reason: str) -> None:
        self._reasons.append(reason)

    def take(self, member: tarfile.TarInfo, archive: tarfile.TarFile) -> None:
        reason = _why_refused(member)
        name = str(PurePosixPath(member.name))
        if reason is None and member.isfile() and name in self.files:
            reason = "twice"
        if reason is not None:
            self.refuse(f"it holds {member.name[:200]!r} {reason}")
        elif member.isfile():
            self.files[name] = SourceFile(name, self._path, member.size, bool(member.mode & 0o100))
            if PurePosixPath(name).suffix in _KEPT_SUFFIXES and member.size <= min(MOST_KEPT, self._room):
                content = archive.extractfile(member)
                self._kept[name] = b"" if content is None else content.read(member.size)
                self._room -= member.size

    def result(self, content: _Content) -> PackedSource:
        files = tuple(sorted(self.files.values(), key=lambda file: file.name.split("/")))
        self._reasons += [f"it holds {name!r} both as a file and as a folder" for name in _both(self.files)]
        if not files and not self._reasons:
            self.refuse("it holds no files")
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


def _both(files: Mapping[str, SourceFile]) -> list[str]:
    """The files in which others would have to lie."""
    folders = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    return sorted(folders & files.keys())
