"""What a job's `code` channel holds: the boot and the user's source, packed deterministically.

The same files give the same digest, which is the key under which they are uploaded: a job's request says
by its URI which code it runs, and code that lies there already is not sent again.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from launcher.documents.files import open_regular
from launcher.source.archive import archive_blocks, unreadable
from launcher.source.errors import SourceError
from launcher.source.prose import without_docstrings
from launcher.source.tree import SourceTree

BOOT_NAME = "slipway.pyz"
"""What the boot is called in the channel of the code."""

SOURCE_NAME = "source.tar.gz"
"""What the packed source is called where the boot looks for it (`slipway/boot.py`)."""

_BOOT_PACKAGE = "slipway"
_BOOT_MAIN = "import sys\n\nfrom slipway.boot import main\n\nsys.exit(main())\n"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_CHUNK = 1024 * 1024
_COMPRESSION = 6
"""zlib's own default: three times as fast as 9 for about one per cent more."""

_FORMAT = "slipway code 2"
"""Part of every digest: another way of packing is other code."""


def package_digest(source_digest: str, archive: str) -> str:
    """What identifies a job's code: SHA-256, in hexadecimal, over all that lies in its folder on S3.

    `source_digest` is that of the source (`SourceTree.digest`). `archive` is the packed source's name; the
    images' toolkits know theirs and start without the boot, so that the boot counts for SOURCE_NAME only.
    """
    boot = _boot_digest() if archive == SOURCE_NAME else ""
    return hashlib.sha256("\n".join((_FORMAT, archive, boot, source_digest)).encode()).hexdigest()


def build_boot(path: Path) -> None:
    """Write the boot as an executable archive for Python's zipapp loader, without its docstrings, which are
    half of it.

    The package is found by its path and never imported: it belongs to the containers.
    """
    import zipfile

    # Another zlib may compress it into other bytes; what identifies it is the digest of its files.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=_COMPRESSION) as archive:
        for name, content in _boot_files():
            member = zipfile.ZipInfo(name, _ZIP_EPOCH)
            member.create_system = 3  # as on Unix; on Windows it would be 0
            if name.endswith(".py"):
                content = without_docstrings(content.decode()).encode()
            archive.writestr(member, content, zipfile.ZIP_DEFLATED, _COMPRESSION)


def build_source(source: SourceTree, path: Path) -> None:
    """Write the user's source as tar.gz: what the tree's digest is the digest of, or nothing to be used.

    A source that is packed already stays as it is. Else packs the files that the tree has, and looks at the
    folder no more. Regular files only, in sorted order, without owners and times; of the permissions, only
    whether a file is executable. Raises SourceError for a source that cannot be packed, and for one that has
    changed since the tree was read.
    """
    # Most commands only count what would be packed.
    import gzip

    source.check()
    if source.is_packed:
        return _copy_packed(source, path)
    digest = hashlib.sha256()
    # GzipFile writes the time, and the file's name where it has one, into the header.
    with (
        path.open("wb") as target,
        gzip.GzipFile("", "wb", _COMPRESSION, target, mtime=0) as compressed,
    ):
        for block in archive_blocks(source.files):
            digest.update(block)
            compressed.write(block)
    _check(source, digest.hexdigest())


def _copy_packed(source: SourceTree, path: Path) -> None:
    """The archive as it is, if what is compressed in it is what was planned."""
    import gzip
    import shutil
    import zlib

    digest = hashlib.sha256()
    try:
        with open_regular(source.folder) as packed, path.open("wb") as target:
            shutil.copyfileobj(packed, target)
        with gzip.open(path) as content:
            # No further than what was planned: another archive may have no end.
            left = source.archive_bytes + 1
            while left and (block := content.read(min(left, _CHUNK))):
                digest.update(block)
                left -= len(block)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable(source.folder, error) from error
    _check(source, digest.hexdigest())


def _check(source: SourceTree, digest: str) -> None:
    if digest != source.digest:
        raise SourceError(
            f"the code in {source.folder} is no longer what was planned.",
            "Launch again, and leave the files as they are meanwhile.",
        )


def _boot_files() -> Iterator[tuple[str, bytes]]:
    """The boot's files in the archive, each with its name."""
    folder = _boot_folder()
    for file in sorted((*folder.rglob("*.py"), *folder.rglob("*.json"))):
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
