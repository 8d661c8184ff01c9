"""What a job leaves where nothing is kept: its work, written beside the folders that outlive the hosts."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from slipway.container import DEFAULT_ROOT, Container

MODE = "CKPT007"

MOST_ENTRIES = 20_000
"""Files and folders that are looked at, in all; where there are more, nothing is said."""

MOST_SECONDS = 2.0

_WORK = (".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".distcp", ".h5", ".keras", ".onnx")
"""How saved models and checkpoints are called; they count from _SMALLEST bytes on."""

_SMALLEST = 10_000
_LARGE_TOGETHER = 1_000_000
"""Bytes from which other files count, all of them together."""

_NO_WORK = (
    ".gz",
    ".tgz",
    ".tar",
    ".zip",
    ".zst",
    ".parquet",
    ".arrow",
    ".csv",
    ".log",
    ".lock",
    ".pyc",
    ".so",
)
"""What is downloaded, built or logged rather than trained."""

_NO_WORK_FOLDERS = ("__pycache__", ".git", ".cache", "data", "dataset", "datasets", "wandb")
"""Where scripts keep what they could have again; only files called as a model's count there."""


class _File(NamedTuple):
    path: str
    size: int
    is_work: bool
    """Whether it is called as a model's or a checkpoint's file, and not tiny."""
    may_be_work: bool


class Incomplete(Exception):
    """There is more than can be looked at in the time."""


def tell_of_lost_work(container: Container, environment: Mapping[str, str], since: float) -> None:
    """Say, after a success, which files hold work and die with the host, where nothing at all was kept.

    `environment` is the script's, `since` when it was started, in seconds since the epoch. The first host
    alone speaks: a job's other hosts save nothing as a rule. A machine's /tmp is looked at only where the
    machine is the container.
    """
    if container.node_rank != 0:
        return
    budget = Budget()
    try:
        if any(True for _ in _written(_kept(container, environment), since, budget)):
            return
        lost = [file for file in _written([container.code], since, budget) if file.may_be_work]
        if container.root == Path(DEFAULT_ROOT):
            lost += [file for file in _written([Path("/tmp")], since, budget) if file.is_work]
    except (OSError, Incomplete):
        return
    work = [file for file in lost if file.is_work]
    if work or sum(file.size for file in lost) > _LARGE_TOGETHER:
        print(f"slipway: {MODE} {_sentence(work or lost, container.code)}", file=sys.stderr, flush=True)


class Budget:
    """How much may be looked at still: Incomplete is raised where that is used up."""

    def __init__(self, entries: int = MOST_ENTRIES, seconds: float = MOST_SECONDS) -> None:
        self._entries, self._until = entries, time.monotonic() + seconds

    def spend(self) -> None:
        """Count one entry. Raises Incomplete."""
        self._entries -= 1
        if self._entries < 0 or time.monotonic() > self._until:
            raise Incomplete


def _kept(container: Container, environment: Mapping[str, str]) -> list[Path]:
    """The folders that outlive the host."""
    names = ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SLIPWAY_CHECKPOINT_DIR")
    return [*(Path(environment[name]) for name in names), container.root / "checkpoints"]


def _written(folders: Sequence[Path], since: float, budget: Budget) -> Iterator[_File]:
    """The files below the folders that were written since then, ours left out."""
    waiting = [(folder, True) for folder in folders if folder.is_dir()]
    while waiting:
        folder, has_work = waiting.pop()
        for entry in os.scandir(folder):
            budget.spend()
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode):
                if not (folder.name == "data" and folder.parent.name == "output" and entry.name == "slipway"):
                    waiting.append((Path(entry.path), has_work and entry.name not in _NO_WORK_FOLDERS))
            elif stat.S_ISREG(status.st_mode) and status.st_mtime >= since:
                is_work = entry.name.endswith(_WORK) and status.st_size >= _SMALLEST
                may_be_work = is_work or (has_work and not entry.name.endswith(_NO_WORK))
                yield _File(entry.path, status.st_size, is_work, may_be_work)


def _sentence(files: Sequence[_File], code: Path) -> str:
    largest = max(files, key=lambda file: file.size)
    name = os.path.relpath(largest.path, code) if largest.path.startswith(f"{code}/") else largest.path
    count = "1 file" if len(files) == 1 else f"{len(files)} files"
    return (
        f"nothing was saved where it is kept; what the script wrote elsewhere, {count} "
        f"({_size(sum(file.size for file in files))}) such as {name}, dies with the host. Write to "
        "SM_MODEL_DIR, SLIPWAY_CHECKPOINT_DIR or SM_OUTPUT_DATA_DIR"
    )


def _size(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
