"""The archive of a source, before it is compressed: what it holds byte by byte, and the digest of that.

The digest is known without building anything, and whoever has the archive can compute it, the boot in the
container for one: `gunzip -c source.tar.gz | sha256sum`. It is not taken over the compressed file, which is
another one wherever another zlib compresses.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from launcher.documents.files import open_regular
from launcher.source.errors import SourceError
from launcher.source.files import SourceFile

OnRead = Callable[[int, int], None]
"""Told again and again how many bytes of a source have been read, and how many there are."""

_CHUNK = 1024 * 1024
_BLOCK = 512
"""What a member is filled up to (POSIX.1-2001, pax: ustar interchange format)."""


def archive_blocks(files: Sequence[SourceFile]) -> Iterator[bytes]:
    """The archive (pax) of files as they lie there, piece by piece, in the order in which they are given.

    Of a file it holds the name, the content and whether it is executable; owners and times do not count.
    Raises SourceError where a file cannot be read, or is no longer as long as it was.
    """
    for file in files:
        try:
            yield _header(file)
            yield from _content(file)
        except OSError as error:
            raise unreadable(file.path, error) from error
        yield bytes(-file.size % _BLOCK)
    yield bytes(2 * _BLOCK)


def digest_of(files: Sequence[SourceFile], on_read: OnRead | None = None) -> str:
    """SHA-256, in hexadecimal, of the archive of files. Raises SourceError as `archive_blocks` does."""
    digest = hashlib.sha256()
    total, read = sum(file.size for file in files), 0
    for block in archive_blocks(files):
        digest.update(block)
        read += len(block)
        if on_read is not None:
            on_read(min(read, total), total)
    return digest.hexdigest()


def _header(file: SourceFile) -> bytes:
    import tarfile  # here: what is only shown, as by --help, needs none

    member = tarfile.TarInfo(file.name)
    member.size = file.size
    member.mode = 0o755 if file.executable else 0o644
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _content(file: SourceFile) -> Iterator[bytes]:
    """Exactly as many bytes as the header says."""
    left = file.size
    with open_regular(file.path) as content:
        while left:
            data = content.read(min(left, _CHUNK))
            if not data:
                raise OSError("it has become shorter since the folder was read")
            left -= len(data)
            yield data
        if content.read(1):
            raise OSError("it has grown since the folder was read")


def unreadable(path: Path, error: OSError) -> SourceError:
    """What is told of a file of the source that cannot be read."""
    return SourceError(
        f"{path} cannot be packed: {error.strerror or error}.",
        "Make it readable and leave it as it is during the launch, or name it in .slipwayignore.",
    )
