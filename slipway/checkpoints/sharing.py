"""Files of a checkpoint that some hosts lack, sent by a host that has them, over torch's own broadcast."""

from __future__ import annotations

import ctypes
import hashlib
import os
from pathlib import Path
from typing import Any

from slipway.checkpoints.manifest import CheckpointFile
from slipway.checkpoints.shelf import put

BLOCK = 32 * 1024 * 1024
"""Bytes that go at once: enough for the network, little beside a model."""


def share(folder: Path, entry: CheckpointFile, source: int, receivers: list[int]) -> str | None:
    """Send one file from rank `source` to the disks of `receivers`. A collective: every rank calls it.

    Returns what went wrong on this rank, None if nothing did. Whatever goes wrong, this rank takes part to
    the end, so that nobody waits for it.
    """
    import torch
    import torch.distributed as dist

    device = "cuda" if "nccl" in str(dist.get_backend()) else "cpu"
    rank = dist.get_rank()
    wrong: str | None = None
    file = folder / entry.name
    partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
    sha256 = hashlib.sha256()
    for start in range(0, entry.bytes, BLOCK):
        block = torch.zeros(min(BLOCK, entry.bytes - start), dtype=torch.uint8)
        try:
            if rank == source:
                _fill(block, file, start)
        except OSError as error:
            wrong = f"{entry.name} cannot be read: {error.strerror}"
        block = block.to(device)
        dist.broadcast(block, source)
        if rank in receivers and wrong is None:
            host_block = block.cpu()
            content = ctypes.string_at(host_block.data_ptr(), host_block.numel())
            sha256.update(content)
            try:
                partial.parent.mkdir(parents=True, exist_ok=True)
                with partial.open("ab" if start else "wb") as out:
                    out.write(content)
            except OSError as error:
                wrong = f"{entry.name} cannot be written: {error.strerror}"
    if rank in receivers and wrong is None:
        wrong = _kept(partial, file, entry, sha256.hexdigest())
    return wrong


def _fill(block: Any, file: Path, start: int) -> None:
    with file.open("rb") as content:
        content.seek(start)
        data = bytearray(content.read(block.numel()))
    import torch

    if data:
        block[: len(data)] = torch.frombuffer(data, dtype=torch.uint8)


def _kept(partial: Path, file: Path, entry: CheckpointFile, digest: str) -> str | None:
    try:
        if entry.bytes == 0:
            partial.parent.mkdir(parents=True, exist_ok=True)
            partial.touch()
        if digest != entry.sha256:
            partial.unlink()
            return f"{entry.name} came with another SHA-256 than its manifest says"
        put(partial, file)
    except OSError as error:
        return f"{entry.name} cannot be written: {error.strerror}"
    return None
