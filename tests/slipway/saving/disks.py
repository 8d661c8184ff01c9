"""Checkpoints as slipway.CheckpointManager leaves them on the disks of hosts, without a training."""

from __future__ import annotations

import os
from pathlib import Path

from slipway.saving.stored_checkpoints import FILE_NAME, CheckpointManifest, entry_of, folder_name, put_text


def never() -> bool:
    """There is always time."""
    return False


def save(step: int, *disks: Path, token: str = "0a1b2c3d", size: int = 2000) -> str:
    """A checkpoint with one file of each host, on the disks of algo-1, algo-2 ...; its folder's name."""
    name = folder_name(step, token)
    entries = []
    for number, disk in enumerate(disks, 1):
        (disk / name).mkdir(parents=True, exist_ok=True)
        file = f"rank-{number:05d}.pt"
        (disk / name / file).write_bytes(os.urandom(size))
        entries.append(entry_of(disk / name, file, f"algo-{number}"))
    manifest = CheckpointManifest(step, len(disks), tuple(entries), None, {"torch": "2.7.1"})
    for disk in disks:
        put_text(disk / name / FILE_NAME, manifest.to_json())
    return name


def delete(name: str, *disks: Path) -> None:
    """As the manager deletes: the manifest first."""
    for disk in disks:
        (disk / name / FILE_NAME).unlink()
        for file in (disk / name).iterdir():
            file.unlink()
        (disk / name).rmdir()


def tree(folder: Path) -> dict[str, bytes]:
    """The files below a folder by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
