"""What a job's `code` channel holds: the boot and the user's source, packed deterministically.

The same files give the same digest, which is the key under which they are uploaded: a job's request says
by its URI which code it runs, and code that lies there already is not sent again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from launcher.documents.files import open_regular
from launcher.source.digest import SourceDigest, unreadable
from launcher.source.errors import SourceError
from launcher.source.files import SourceFile
from launcher.source.tree import SourceTree

if TYPE_CHECKING:
    import tarfile

BOOT_NAME = "slipway.pyz"
"""What the boot is called in the channel of the code."""

SOURCE_NAME = "source.tar.gz"
"""What the packed source is called where the boot looks for it (`slipway/boot.py`)."""

_BOOT_PACKAGE = "slipway"
_BOOT_MAIN = "import sys\n\nfrom slipway.boot import main\n\nsys.exit(main())\n"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_COMPRESSION = 6
"""zlib's own default: three times as fast as 9 for about one per cent more."""

_CHUNK = 1024 * 1024

_FORMAT = "slipway code 1"
"""Part of every digest: another way of packing is other code."""


def package_digest(source_digest: str, archive: str) -> str:
    """What identifies a job's code: SHA-256, in hexadecimal, over all that lies in its folder on S3.

    `source_digest` is that of the source (`SourceTree.digest`, and what `build_source` returns). `archive`
    is the packed source's name; the images' toolkits know theirs and start without the boot, so that the
    boot counts for SOURCE_NAME only.
    """
    boot = _boot_digest() if archive == SOURCE_NAME else ""
    return hashlib.sha256("\n".join((_FORMAT, archive, boot, source_digest)).encode()).hexdigest()


def build_boot(path: Path) -> str:
    """Write the boot as an executable archive for Python's zipapp loader; returns its SHA-256.

    The package is found by its path and never imported: it belongs to the containers.
    """
    import zipfile

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _boot_files():
            archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), content, zipfile.ZIP_DEFLATED)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def build_source(source: SourceTree, path: Path) -> str:
    """Write the user's source as tar.gz; returns the digest of what the files hold now.

    Packs the files that the tree has, and looks at the folder no more. Regular files only, in sorted order,
    without owners and times; of the permissions, only whether a file is executable. Raises SourceError for
    a source that cannot be packed, and for a file that is gone, has become shorter or cannot be read. Any
    other change since the tree was read shows in the digest, which is then not the tree's.
    """
    # Most commands only count what would be packed.
    import gzip
    import tarfile

    if source.problem is not None:
        raise source.problem
    digest = SourceDigest()
    # GzipFile writes the time, and the file's name where it has one, into the header.
    with (
        path.open("wb") as target,
        gzip.GzipFile("", "wb", _COMPRESSION, target, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in source.files:
            try:
                with open_regular(file.path) as content:
                    hashed = _Hashed(content)
                    archive.addfile(_member(file), hashed)
                    # What was appended since is not packed, and makes another digest.
                    while hashed.read(_CHUNK):
                        pass
            except OSError as error:
                raise unreadable(file.path, error) from error
            digest.add(file, hashed.digest.hexdigest())
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


def _member(file: SourceFile) -> tarfile.TarInfo:
    import tarfile

    member = tarfile.TarInfo(file.name)
    member.size = file.size
    member.mode = 0o755 if file.executable else 0o644
    return member


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
