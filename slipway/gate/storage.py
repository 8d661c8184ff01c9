"""Judges what a host can store and read: disk, shared memory, channels, the checkpoints' folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slipway.gate.findings import HostFinding, Report
from slipway.gate.machine import Look, file_system_of

LEAST_FREE = 256 * 1024 * 1024
"""Bytes: what the boot itself keeps of 8 ranks' output, 16 MB each, twice."""

LITTLE_FREE = 5 * 1024**3
"""Bytes: less than a model of 400 million parameters takes with Adam's state in single precision."""

LEAST_SHARED = 64 * 1024 * 1024
"""Bytes that Docker gives a container without --shm-size; less than that somebody has chosen."""

LITTLE_SHARED = 1024**3
"""Bytes: 4 workers with 2 batches each of 128 images of 224 x 224 x 3 bytes take 150 MB, as floats 600 MB."""

_ON_NETWORK = ("lustre", "nfs", "nfs4", "efs", "fsx")
_FULL = ("ENOSPC", "EDQUOT")


@dataclass(frozen=True)
class Asked:
    """The folders that were asked about, by what they are for."""

    channels: Mapping[str, str]
    checkpoints: str
    disks: Sequence[str]
    shared_memory: str


def judge_storage(host: str, asked: Asked, look: Look, mounts: str) -> Report:
    """Judge the answers of `slipway/gate/look.py`. What was not answered in time blocks, and would do so in
    the ranks."""
    if look.trouble is not None:
        return Report((), (f"{host}'s folders ({look.trouble})",))
    found: list[HostFinding] = []
    for name, path in asked.channels.items():
        found += _channel(host, name, path, look, mounts)
    found += _checkpoints(host, asked.checkpoints, look, mounts)
    rooms = [(path, look.answers.get(("room", path))) for path in asked.disks]
    # Several folders of one disk are one finding.
    disks = {room["disk"]: (path, room) for path, room in rooms if room and "error" not in room}
    for path, room in disks.values():
        found += _disk(host, path, room)
    found += _shared_memory(host, asked.shared_memory, look.answers.get(("room", asked.shared_memory)))
    unknown = [
        f"the room of {path} on {host} ({'no answer' if room is None else room['reason']})"
        for path, room in rooms
        if room is None or "error" in room
    ]
    return Report(tuple(found), tuple(unknown))


def megabytes(count: float) -> str:
    """A number of bytes as people read it."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _channel(host: str, name: str, path: str, look: Look, mounts: str) -> Iterator[HostFinding]:
    answer = look.answers.get(("read", path))
    kind, point = file_system_of(path, mounts)
    on_network = kind.startswith(_ON_NETWORK)
    code = "FSX005" if on_network else "S3002"
    what = f"the channel {name} at {path}" + (f" (the {kind} mount {point})" if on_network else "")
    if answer is None:
        text = f"{what} did not answer within {look.seconds:.0f} s: every rank that reads it would block"
        yield HostFinding("FSX005", host, f"{text}. {_REMEDIES['FSX005']}")
    elif "error" in answer:
        text = f"{what} cannot be read: {answer['reason']} ({answer['error']})"
        yield HostFinding(code, host, f"{text}. {_REMEDIES[code]}")
    elif not answer["entries"]:
        code = "FSX005" if on_network else "S3001"
        text = f"{what} is empty: the ranks would find no data there. {_REMEDIES[code]}"
        yield HostFinding(code, host, text, ends=False)


_REMEDIES = {
    "FSX005": "See that the file system is AVAILABLE and the ports of Lustre are open (FSX001, FSX004), and "
    "that the directory is there",
    "S3001": "See that the prefix holds objects, and that they are shared out to every host",
    "S3002": "See that the execution role may list the bucket and read its objects",
}


def _checkpoints(host: str, path: str, look: Look, mounts: str) -> Iterator[HostFinding]:
    answer = look.answers.get(("write", path))
    kind, _ = file_system_of(path, mounts)
    if answer is None:
        yield HostFinding(
            "FSX005",
            host,
            f"the checkpoints' folder {path} ({kind or 'an unknown file system'}) did not answer within "
            f"{look.seconds:.0f} s: every rank that saves would block. {_REMEDIES['FSX005']}",
        )
    elif answer.get("error") in _FULL:
        yield HostFinding(
            "DISK001",
            host,
            f"nothing can be written to the checkpoints' folder {path}: {answer['reason']}. Delete what is "
            "not needed, or raise `resources.volume_size_gb`",
        )
    elif "error" in answer:
        code = "FSX005" if kind.startswith(_ON_NETWORK) else "CKPT007"
        yield HostFinding(
            code,
            host,
            f"the checkpoints' folder {path} cannot be written: {answer['reason']} ({answer['error']}), so "
            "the job would have nothing to resume from. Give `checkpoint.local_path` a folder that this "
            "container's user may write",
        )


def _disk(host: str, path: str, room: Mapping[str, Any]) -> Iterator[HostFinding]:
    free, size = int(room["free"]), int(room["bytes"])
    if not size:
        return
    measured = f"{megabytes(free)} of {megabytes(size)} are free on the disk of {path}"
    remedy = "Raise `resources.volume_size_gb`, or read the data with FastFile or from Lustre"
    if free < LEAST_FREE:
        yield HostFinding("DISK001", host, f"{measured}, too little for logs and checkpoints. {remedy}")
    elif room["files"] and not room["free_files"]:
        text = f"no file can be made on the disk of {path}: all {room['files']} inodes are taken"
        yield HostFinding("DISK001", host, f"{text}. Delete what is not needed")
    elif free < LITTLE_FREE:
        yield HostFinding("DISK001", host, f"{measured}: checkpoints may fill it. {remedy}", ends=False)


def _shared_memory(host: str, path: str, room: Mapping[str, Any] | None) -> Iterator[HostFinding]:
    if room is None or "error" in room:
        reason = "no answer" if room is None else room["reason"]
        text = f"{path} cannot be asked ({reason}), through which DataLoader workers and NCCL pass their data"
        yield HostFinding("DATA005", host, text)
        return
    size, free = int(room["bytes"]), int(room["free"])
    if size >= LITTLE_SHARED and free >= LEAST_SHARED:
        return
    text = (
        f"{path} has {megabytes(size)}, {megabytes(free)} of them free: DataLoader workers pass batches "
        "through it, NCCL its data between the GPUs of a host, and both die where it is full. Start the "
        "container with a larger one (`--shm-size`), or set num_workers to 0"
    )
    yield HostFinding("DATA005", host, text, ends=free < LEAST_SHARED)
