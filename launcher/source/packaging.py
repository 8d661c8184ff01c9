"""What a job's `code` channel holds: the boot and the user's source, packed deterministically.

The same files give the same digest, which is the key under which they are uploaded: a job's request says by
its URI which code it runs, and code that lies there already is not sent again.

The boot goes without its docstrings: a container has no reader for them. Lines keep their numbers, so that a
traceback from a container leads to the line in the repository. What is packed lies in temporary folders, gone
after use, and found again where a launcher was killed.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from launcher.source.archive import archive_blocks, unreadable_file
from launcher.source.folder_walk import SourceError
from launcher.source.tree import SourceTree
from launcher.text.regular_files import open_regular

BOOT_NAME = "slipway.pyz"
"""What the boot is called in the channel of the code."""

SOURCE_NAME = "source.tar.gz"
"""What the packed source is called where the boot looks for it (`slipway/boot.py`)."""

_BOOT_PACKAGE = "slipway"
_BOOT_MAIN = "import sys\n\nfrom slipway.boot import main\n\nsys.exit(main())\n"
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_COPY_BYTES = 1024 * 1024
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
    _check_digest(source, digest.hexdigest())


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
            while left and (block := content.read(min(left, _COPY_BYTES))):
                digest.update(block)
                left -= len(block)
    except (OSError, EOFError, zlib.error) as error:
        raise unreadable_file(source.folder, error) from error
    _check_digest(source, digest.hexdigest())


def _check_digest(source: SourceTree, digest: str) -> None:
    if digest != source.digest:
        raise SourceError(
            f"the code in {source.folder} is no longer what was planned.",
            "Launch again, and leave the files as they are meanwhile.",
        )


def _boot_files() -> Iterator[tuple[str, bytes]]:
    """The boot's files in the archive, each with its name."""
    folder = _boot_folder()
    walked = os.walk(folder)  # in a third of the time of Path.rglob, and every plan needs the digest
    files = (Path(where, name) for where, _, names in walked for name in names)
    for file in sorted(each for each in files if each.suffix in (".py", ".json")):
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


# Python source without its docstrings.


_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of a statement that hold statements, or what holds them."""


def without_docstrings(source: str) -> str:
    """The source with empty docstrings: it does the same, and every line is where it was.

    Raises SyntaxError for what is not Python.
    """
    lines = source.splitlines(keepends=True)
    for text in _docstrings(source):
        assert text.end_lineno is not None and text.end_col_offset is not None
        first, last = text.lineno - 1, text.end_lineno - 1
        before = lines[first].encode()[: text.col_offset].decode()
        behind = lines[last].encode()[text.end_col_offset :].decode()
        blank = ["\n"] * (last - first)
        lines[first : last + 1] = [f'{before}""{behind}', *blank]
    return "".join(lines)


def _docstrings(source: str) -> list[ast.Constant]:
    """The texts that are statements of their own."""
    texts: list[ast.Constant] = []
    nodes: list[ast.AST] = [ast.parse(source)]
    for node in nodes:
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                texts.append(node.value)
            continue
        # Most nodes stand below expressions, which hold no statements: looking at all takes thrice as long.
        for block in _BLOCKS:
            nodes.extend(getattr(node, block, ()))
    return texts


# Temporary folders for what is packed: gone after use, and found again where a launcher was killed.


SCRATCH_PREFIX = "slipway-"
"""What the folders' names begin with."""

_LOCK = ".in-use"
_MARK = b"a temporary folder of slipway's launcher, deleted when no launcher holds this file\n"
"""What that file holds. A folder without it is not ours, whatever its name: a clone may be `slipway-main`."""


@contextlib.contextmanager
def scratch_folder(purpose: str = "") -> Iterator[Path]:
    """A temporary folder of this process for as long as the context lasts.

    It is locked for as long: however this process ends, the lock ends with it, and the next launcher collects
    the folder. Raises OSError where there is no room for it.
    """
    collect_scratch_folders()
    with tempfile.TemporaryDirectory(prefix=f"{SCRATCH_PREFIX}{purpose}") as name, _locked(Path(name)):
        content = Path(name) / "content"
        content.mkdir()
        yield content


def collect_scratch_folders() -> list[Path]:
    """Delete the user's own scratch folders whose owner is dead; returns them. Raises nothing.

    Only folders that carry our mark. A living owner's lock says so, also to launchers in other containers
    that share the disk. What belongs to somebody else, or is a link, is not looked at.
    """
    deleted = []
    with contextlib.suppress(OSError):
        for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
            with contextlib.suppress(OSError):
                if _is_left_behind(folder):
                    shutil.rmtree(folder)
                    deleted.append(folder)
    return deleted


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Mark a folder as that of a living process; one on a disk without locks is not marked."""
    with (folder / f"{_LOCK}.new").open("wb") as lock:
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock.write(_MARK)
            lock.flush()
            # Only now: a mark without its lock would be taken for that of a dead process.
            Path(lock.name).rename(folder / _LOCK)
        yield


def _is_left_behind(folder: Path) -> bool:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return False
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        if os.read(lock, len(_MARK) + 1) != _MARK:
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
