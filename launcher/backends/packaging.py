"""What a job's `code` channel holds: the boot and the user's source, packed deterministically.

The same input gives the same bytes, so that a digest tells whether two jobs ran the same code.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import os
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from launcher.backends.interface import BackendError

BOOT_NAME = "slipway.pyz"
SOURCE_NAME = "source.tar.gz"
SKIPPED_FOLDERS = frozenset({".git", "__pycache__", ".venv", ".slipway"})
"""Never part of a job's code: history, caches, and what local runs leave."""

_BOOT_PACKAGE = "slipway"
_BOOT_MAIN = "import sys\n\nfrom slipway.boot import main\n\nsys.exit(main())\n"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def build_boot(path: Path) -> str:
    """Write the boot as an executable archive for Python's zipapp loader; returns its SHA-256.

    The package is found by its path and never imported: it belongs to the containers.
    """
    folder = _boot_folder()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*.py")):
            name = f"{_BOOT_PACKAGE}/{file.relative_to(folder).as_posix()}"
            archive.writestr(zipfile.ZipInfo(name, _ZIP_EPOCH), file.read_bytes(), zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("__main__.py", _ZIP_EPOCH), _BOOT_MAIN, zipfile.ZIP_DEFLATED)
    return _sha256(path)


def build_source(source_dir: Path, path: Path) -> str:
    """Write the user's source as tar.gz; returns its SHA-256.

    Regular files only, in sorted order, without owners and times; of the permissions, only whether a
    file is executable. Raises BackendError for a folder that is missing, holds nothing, or holds a
    link or a special file.
    """
    if not source_dir.is_dir():
        raise BackendError(f"the source folder {source_dir} is not there.", "Correct `code.source_dir`.")
    files = sorted(_files(source_dir), key=lambda file: file.relative_to(source_dir).parts)
    if not files:
        raise BackendError(f"the source folder {source_dir} holds no files.", "Correct `code.source_dir`.")
    # GzipFile writes the time, and the file's name where it has one, into the header.
    with (
        path.open("wb") as target,
        gzip.GzipFile(filename="", fileobj=target, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for file in files:
            with file.open("rb") as content:
                archive.addfile(_member(file, source_dir), content)
    return _sha256(path)


def _files(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        path = Path(entry.path)
        if entry.is_symlink():
            raise BackendError(
                f"{path} is a symbolic link, which would point elsewhere in the container.",
                "Replace it by what it points to, or move it out of `code.source_dir`.",
            )
        if entry.is_dir():
            if entry.name not in SKIPPED_FOLDERS:
                yield from _files(path)
        elif entry.is_file():
            yield path
        else:
            raise BackendError(
                f"{path} is neither a file nor a folder and cannot be packed.",
                "Move it out of `code.source_dir`.",
            )


def _member(file: Path, source_dir: Path) -> tarfile.TarInfo:
    status = file.stat()
    member = tarfile.TarInfo(file.relative_to(source_dir).as_posix())
    member.size = status.st_size
    member.mode = 0o755 if status.st_mode & stat.S_IXUSR else 0o644
    return member


def _boot_folder() -> Path:
    specification = importlib.util.find_spec(_BOOT_PACKAGE)
    if specification is None or not specification.submodule_search_locations:
        raise BackendError(
            "the package that runs in the container is not installed beside the launcher.",
            "Install the launcher again.",
        )
    return Path(specification.submodule_search_locations[0])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
