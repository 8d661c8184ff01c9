"""What a job's `code` channel holds: the boot and the user's source, packed deterministically.

The same files give the same digest, which is the key under which they are uploaded: a job's request says
by its URI which code it runs, and code that lies there already is not sent again.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import os
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from launcher.source.errors import SourceError
from launcher.source.files import SourceFile, source_files

BOOT_NAME = "slipway.pyz"
SOURCE_NAME = "source.tar.gz"

_BOOT_PACKAGE = "slipway"
_BOOT_MAIN = "import sys\n\nfrom slipway.boot import main\n\nsys.exit(main())\n"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_COMPRESSION = 6
"""zlib's own default: three times as fast as 9 for about one per cent more."""

_FORMAT = "slipway code 1"
"""Part of every digest: another way of packing is other code."""


def code_digest(files: Iterable[SourceFile], archive: str) -> str:
    """What identifies a job's code: SHA-256, in hexadecimal, over all that lies in its folder on S3.

    Names, contents and whether a file is executable count; owners, times and other permissions do not.
    Reads the files and packs nothing. `archive` is the packed source's name; the images' toolkits know
    theirs and start without the boot, so that it counts for SOURCE_NAME only. Raises SourceError where
    a file cannot be read.
    """
    digest = hashlib.sha256()
    for file in files:
        try:
            with file.path.open("rb") as content:
                _count(digest, file, hashlib.file_digest(content, "sha256").hexdigest())
        except OSError as error:
            raise _unreadable(file.path, error) from error
    return package_digest(digest.hexdigest(), archive)


def package_digest(source_digest: str, archive: str) -> str:
    """The digest of the code from that of the source, which `build_source` returned."""
    boot = _boot_digest() if archive == SOURCE_NAME else ""
    return hashlib.sha256("\n".join((_FORMAT, archive, boot, source_digest)).encode()).hexdigest()


def build_boot(path: Path) -> str:
    """Write the boot as an executable archive for Python's zipapp loader; returns its SHA-256.

    The package is found by its path and never imported: it belongs to the containers.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _boot_files():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), content, zipfile.ZIP_DEFLATED)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_source(source_dir: Path, path: Path) -> str:
    """Write the user's source as tar.gz; returns the SHA-256 of what was packed, file by file.

    Regular files only, in sorted order, without owners and times; of the permissions, only whether a
    file is executable. Raises SourceError for a folder that cannot be packed (`source_files`), and for
    a file that changes meanwhile or cannot be read.
    """
    files = source_files(source_dir)
    digest = hashlib.sha256()
    # GzipFile writes the time, and the file's name where it has one, into the header.
    with (
        path.open("wb") as target,
        gzip.GzipFile("", "wb", _COMPRESSION, target, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            try:
                with file.path.open("rb") as content:
                    hashed = _Hashed(content)
                    archive.addfile(_member(file), hashed)
            except OSError as error:
                raise _unreadable(file.path, error) from error
            _count(digest, file, hashed.digest.hexdigest())
    return digest.hexdigest()


class _Hashed(io.BufferedIOBase):
    """A file that is hashed while it is read."""

    def __init__(self, file: BinaryIO) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def read(self, size: int | None = -1, /) -> bytes:
        data = self._file.read(-1 if size is None else size)
        self.digest.update(data)
        return data


def _count(digest: Any, file: SourceFile, content_digest: str) -> None:
    """One file's line in the source's digest; no name can hold a NUL."""
    digest.update(os.fsencode(f"{file.name}\0{int(file.executable)}\0{content_digest}\n"))


def _member(file: SourceFile) -> tarfile.TarInfo:
    member = tarfile.TarInfo(file.name)
    member.size = file.size
    member.mode = 0o755 if file.executable else 0o644
    return member


def _unreadable(path: Path, error: OSError) -> SourceError:
    return SourceError(
        f"{path} cannot be packed: {error.strerror or error}.",
        "Make it readable and leave it as it is during the launch, or name it in .slipwayignore.",
    )


def _boot_files() -> Iterator[tuple[str, bytes]]:
    """The boot's files in the archive, each with its name."""
    folder = _boot_folder()
    for file in sorted(folder.rglob("*.py")):
        yield f"{_BOOT_PACKAGE}/{file.relative_to(folder).as_posix()}", file.read_bytes()
    yield "__main__.py", _BOOT_MAIN.encode()


def _boot_digest() -> str:
    digest = hashlib.sha256()
    for name, content in _boot_files():
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return digest.hexdigest()


def _boot_folder() -> Path:
    specification = importlib.util.find_spec(_BOOT_PACKAGE)
    if specification is None or not specification.submodule_search_locations:
        raise SourceError(
            "the package that runs in the container is not installed beside the launcher.",
            "Install the launcher again.",
        )
    return Path(specification.submodule_search_locations[0])
