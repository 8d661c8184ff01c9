"""What lies in the folder of checkpoints on this host's disk, and how something gets there or goes away."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from slipway.checkpoints.manifest import (
    FILE_NAME,
    MAX_BYTES,
    BadManifest,
    CheckpointFile,
    CheckpointManifest,
    parse_manifest,
)

DAMAGED = f"{FILE_NAME}.damaged"
"""What the manifest of a checkpoint is renamed to whose files are not those that it tells of."""

_FOLDER = re.compile(r"step-(?P<step>[0-9]{12})-(?P<token>[0-9a-f]{8})")
_BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Shelved:
    """A checkpoint's folder that has a manifest: `manifest`, or why it cannot be used in `reason`."""

    name: str
    step: int
    manifest: CheckpointManifest | None
    reason: str | None


def folder_name(step: int, token: str) -> str:
    """The folder of a step, saved by the start of the job that `token` (8 hex digits) stands for."""
    return f"step-{step:012d}-{token}"


def step_of(name: str) -> int | None:
    """The step of a folder of that name, None where it is no checkpoint's."""
    match = _FOLDER.fullmatch(name)
    return int(match["step"]) if match else None


def stored(shelf: Path) -> list[Shelved]:
    """The checkpoints that have a manifest, the newest first. Links are not followed."""
    found = []
    for name in folders(shelf):
        if (shelf / name / FILE_NAME).is_symlink() or (shelf / name / FILE_NAME).exists():
            found.append(_read(shelf / name))
    return sorted(found, key=lambda one: (one.step, one.name), reverse=True)


def folders(shelf: Path) -> list[str]:
    """The names of the checkpoints' folders, complete or not. Links are not followed."""
    try:
        with os.scandir(shelf) as entries:
            return [
                entry.name
                for entry in entries
                if _FOLDER.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def sizes(folder: Path) -> dict[str, int]:
    """The bytes of the files in a checkpoint's folder and the folders in it, by name; of no links."""
    found: dict[str, int] = {}
    for place, inner, names in os.walk(folder):
        # os.walk follows no links; deeper than a manifest's names lies nothing of ours.
        if len(Path(place).relative_to(folder).parts) >= 3:
            inner.clear()
        for name in names:
            below = (Path(place) / name).relative_to(folder).as_posix()
            size = _size(folder, below)
            if size is not None:
                found[below] = size
    return found


def present(folder: Path, entries: Iterable[CheckpointFile]) -> list[str]:
    """The names of those files that are there, are files and no links, and have their size."""
    return [entry.name for entry in entries if _size(folder, entry.name) == entry.bytes]


def digest(file: Path) -> str:
    """The SHA-256 of a file's content in hex. Raises OSError."""
    sha256 = hashlib.sha256()
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as content:
        for block in iter(lambda: content.read(_BLOCK), b""):
            sha256.update(block)
    return sha256.hexdigest()


def entry_of(folder: Path, name: str, host: str) -> CheckpointFile:
    """The manifest's entry of a file that is written: read back, so it is what the file system gives."""
    file = folder / name
    return CheckpointFile(name, file.stat().st_size, digest(file), host)


def put(temporary: Path, file: Path) -> None:
    """Give a written file its name, durably: its content first, then the name. Raises OSError."""
    sync(temporary)
    temporary.replace(file)
    sync(file.parent)


def put_text(file: Path, text: str) -> None:
    """Write a text durably under a name that is never seen with half of it. Raises OSError."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.partial")
    temporary.write_text(text, encoding="utf-8")
    put(temporary, file)


def sync(path: Path) -> None:
    """Wait until a file or folder is on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Create a checkpoint's folder durably. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    sync(folder.parent)


def incomplete(shelf: Path, host: str) -> list[str]:
    """The checkpoints that have a manifest but not all files that this host wrote, or no manifest to read."""
    names = []
    for one in stored(shelf):
        own = [entry for entry in one.manifest.files if entry.host == host] if one.manifest else []
        if one.manifest is None or len(present(shelf / one.name, own)) < len(own):
            names.append(one.name)
    return names


def tidy(shelf: Path, keep: Iterable[str], token: str, step: int) -> None:
    """Remove all checkpoints but those to keep, and what starts that were killed have left.

    What this start of the job has saved after `step` stays: another rank may be further already. What
    cannot be removed stays, and is tried again the next time.
    """
    kept = set(keep)
    for name in folders(shelf):
        newer = name.endswith(f"-{token}") and (step_of(name) or 0) > step
        if name not in kept and not newer:
            remove(shelf / name)


def remove(folder: Path) -> None:
    """Remove a checkpoint: its manifest first, so that half of it never counts."""
    for name in (FILE_NAME, DAMAGED):
        try:
            (folder / name).unlink()
        except OSError:
            continue
    shutil.rmtree(folder, ignore_errors=True)


def mark_damaged(folder: Path) -> None:
    """Let a checkpoint no longer count; its files stay until the next one is complete."""
    try:
        (folder / FILE_NAME).replace(folder / DAMAGED)
    except OSError:
        return


def _read(folder: Path) -> Shelved:
    step = step_of(folder.name) or 0
    try:
        size = _size(folder, FILE_NAME)
        if size is None or size > MAX_BYTES:
            raise BadManifest("the manifest is no file, or too large")
        manifest = parse_manifest((folder / FILE_NAME).read_bytes())
        if manifest.step != step:
            raise BadManifest(f"the manifest is that of step {manifest.step}")
    except (OSError, BadManifest) as error:
        return Shelved(folder.name, step, None, str(error))
    return Shelved(folder.name, step, manifest, None)


def _size(folder: Path, name: str) -> int | None:
    """None where it is missing, no file, or reached over a link."""
    path = folder
    try:
        for part in name.split("/")[:-1]:
            path = path / part
            if not stat.S_ISDIR(path.lstat().st_mode):
                return None
        status = (folder / name).lstat()
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
