"""The user's source: know it for what was submitted, unpack it, refuse what would leave its folder."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from slipway.failure import BootError

CODE_DIGEST_VARIABLE = "SLIPWAY_CODE_SHA256"
"""The job's environment variable with what `verify` expects; the launcher writes it into the request."""

_CHUNK = 1024 * 1024
_SHOWN = 12


def verify(archive: Path, expected: str) -> None:
    """Hold the archive (tar.gz) against the digest that its job was submitted with.

    That is the SHA-256, in hexadecimal, of all that the archive holds once it is decompressed; `gunzip -c
    source.tar.gz | sha256sum` computes it too. Raises BootError (CODE002) where it is another one, and where
    the archive is missing or unreadable. Nothing of it has been unpacked by then.
    """
    digest = hashlib.sha256()
    try:
        with gzip.open(archive) as content:
            for chunk in iter(lambda: content.read(_CHUNK), b""):
                digest.update(chunk)
    except (OSError, EOFError, zlib.error) as error:
        raise BootError("CODE002", f"the job's source {archive} cannot be read: {error}") from error
    found = digest.hexdigest()
    if found != expected:
        raise BootError(
            "CODE002",
            f"the job's source {archive.name} is not the code that was submitted: it has the SHA-256 "
            f"{found[:_SHOWN]}..., the job's request says {expected[:_SHOWN]}... ({CODE_DIGEST_VARIABLE}). "
            "Somebody else's code would have run with the job's role, so nothing was started. Find out who "
            "wrote to the folder of the request's channel `code` on S3, remove it there, and launch again",
        )


def unpack(archive: Path, folder: Path) -> None:
    """Extract `archive` (tar.gz) below `folder`.

    Raises BootError (CODE002) where the archive is missing, unreadable, or holds a link, a device or a
    path outside the folder; nothing is extracted then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive, "r:gz") as source:
            members = source.getmembers()
            for member in members:
                _check(member, archive)
            # The filter drops set-uid bits and owners; Python 3.8.17, 3.9.17, 3.10.12 and later have it.
            if hasattr(tarfile, "data_filter"):
                source.extractall(folder, members, filter="data")
            else:
                source.extractall(folder, members)
    except (FileNotFoundError, EOFError, tarfile.TarError) as error:
        raise BootError("CODE002", f"the job's source {archive} cannot be unpacked: {error}") from error


def find_entry_point(folder: Path, entry_point: str) -> Path:
    """The script below `folder`. Raises BootError (CODE002) where it is not there."""
    script = folder / entry_point
    if not script.is_file():
        there = ", ".join(sorted(file.name for file in folder.iterdir())[:20]) or "nothing"
        raise BootError(
            "CODE002",
            f"the entry point {entry_point} is not in the job's source, which holds: {there}. "
            "Correct `code.entry_point` or `code.source_dir`",
        )
    return script


def find_module(folder: Path, module: str) -> None:
    """Make sure that the source holds the module where it holds the package that the module is in.

    Any other may be installed, which only Python can tell. Raises BootError (CODE002).
    """
    names = module.split(".")
    package, path = folder / names[0], folder.joinpath(*names)
    # Without this file the folder may be no package, and hide none that is installed.
    if not (package / "__init__.py").is_file():
        return
    if not (path.with_name(f"{names[-1]}.py").is_file() or path.is_dir()):
        there = ", ".join(sorted(str(file.relative_to(folder)) for file in package.rglob("*.py"))[:20])
        raise BootError(
            "CODE002",
            f"the module {module} is not in the job's source, whose package {names[0]} holds: {there}. "
            "Correct `code.module` or `code.source_dir`",
        )


def _check(member: tarfile.TarInfo, archive: Path) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise BootError("CODE002", f"{archive.name} holds {member.name!r}, a path outside its folder")
    if not (member.isfile() or member.isdir()):
        raise BootError("CODE002", f"{archive.name} holds {member.name!r}, which is not a regular file")
