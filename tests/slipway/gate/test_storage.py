"""What a host can store and read, judged by what it answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from slipway.gate.findings import Report
from slipway.gate.machine import Look, file_system_of
from slipway.gate.storage import Asked, judge_storage

ASKED = Asked({"train": "/in/train"}, "/ckpt", ("/out", "/ckpt"), "/dev/shm")
ROOM = {"disk": 1, "bytes": 10**12, "free": 10**11, "files": 10**6, "free_files": 10**5}
SOUND: Mapping[tuple[str, str], Mapping[str, Any]] = {
    ("read", "/in/train"): {"entries": 3},
    ("write", "/ckpt"): {},
    ("room", "/out"): ROOM,
    ("room", "/ckpt"): {**ROOM, "disk": 2},
    ("room", "/dev/shm"): {"bytes": 2**34, "free": 2**34, "files": 9, "free_files": 9},
}
# proc(5); Lustre's line is that of its own documentation.
MOUNTS = """\
overlay / overlay rw,relatime 0 0
10.0.1.7@tcp:/abcdefgh/train /in/train lustre rw,flock,lazystatfs 0 0
tmpfs /dev/shm tmpfs rw 0 0
fast\\040file /in/my\\040train fuse.fastfile ro 0 0
"""
LOCAL = "overlay / overlay rw,relatime 0 0\n"


def judged(mounts: str = LOCAL, *, silent: tuple[str, str] | None = None, **changed: Any) -> Report:
    answers = {
        key: changed.get(f"{key[0]}_{key[1].strip('/').replace('/', '_')}", value)
        for key, value in SOUND.items()
        if key != silent
    }
    return judge_storage("algo-2", ASKED, Look(answers, 10.0), mounts)


def only(report: Report) -> tuple[str, bool, str]:
    (finding,) = report.findings
    assert finding.host == "algo-2"
    return finding.code, finding.ends, finding.text


def test_a_sound_host_gives_no_finding() -> None:
    assert judged() == Report()
    assert judged(MOUNTS) == Report()


@pytest.mark.parametrize(("mounts", "code"), [(MOUNTS, "FSX005"), (LOCAL, "S3002")])
def test_a_channel_that_cannot_be_read_has_the_code_of_what_it_lies_on(mounts: str, code: str) -> None:
    found = only(judged(mounts, read_in_train={"error": "EIO", "reason": "Input/output error"}))
    assert found[:2] == (code, True)
    assert "the channel train at /in/train" in found[2]
    assert "Input/output error (EIO)" in found[2]


@pytest.mark.parametrize(("mounts", "code"), [(MOUNTS, "FSX005"), (LOCAL, "S3001")])
def test_an_empty_channel_is_told(mounts: str, code: str) -> None:
    assert only(judged(mounts, read_in_train={"entries": 0}))[:2] == (code, False)


def test_a_channel_that_does_not_answer_is_a_dead_mount() -> None:
    code, ends, text = only(judged(MOUNTS, silent=("read", "/in/train")))
    assert (code, ends) == ("FSX005", True)
    assert "the lustre mount /in/train) did not answer within 10 s" in text


def test_checkpoints_on_a_dead_mount_are_found_before_the_first_save() -> None:
    code, ends, text = only(judged(silent=("write", "/ckpt")))
    assert (code, ends) == ("FSX005", True)
    assert "/ckpt (overlay) did not answer" in text


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        ("ENOSPC", "No space left on device", "DISK001"),
        ("EDQUOT", "Disk quota exceeded", "DISK001"),
        ("EACCES", "Permission denied", "CKPT007"),
        ("EROFS", "Read-only file system", "CKPT007"),
    ],
)
def test_checkpoints_that_cannot_be_written_end_the_job(error: str, reason: str, code: str) -> None:
    found = only(judged(write_ckpt={"error": error, "reason": reason}))
    assert found[:2] == (code, True)
    assert reason in found[2]


@pytest.mark.parametrize(
    ("free", "expected"),
    [(100 * 2**20, ("DISK001", True)), (2 * 2**30, ("DISK001", False)), (6 * 2**30, None)],
)
def test_little_room_is_told_and_hardly_any_ends_the_job(
    free: int, expected: tuple[str, bool] | None
) -> None:
    room = {**ROOM, "free": free}
    report = judged(room_out=room, room_ckpt=room)
    assert expected == (only(report)[:2] if report.findings else None)


def test_a_disk_without_inodes_is_full_although_bytes_are_free() -> None:
    code, ends, text = only(judged(room_out={**ROOM, "free_files": 0}))
    assert (code, ends) == ("DISK001", True)
    assert "all 1000000 inodes are taken" in text


def test_a_file_system_that_counts_no_inodes_is_sound() -> None:
    assert judged(room_out={**ROOM, "files": 0, "free_files": 0}) == Report()


@pytest.mark.parametrize(
    ("size", "free", "expected"),
    [
        (2**26, 2**26, ("DATA005", False)),
        (2**20, 2**20, ("DATA005", True)),
        (2**34, 2**20, ("DATA005", True)),
        (2**30, 2**30, None),
    ],
)
def test_small_shared_memory_is_told_and_none_ends_the_job(
    size: int, free: int, expected: tuple[str, bool] | None
) -> None:
    report = judged(room_dev_shm={"bytes": size, "free": free, "files": 1, "free_files": 1})
    assert expected == (only(report)[:2] if report.findings else None)


def test_what_could_not_be_asked_is_said_and_not_passed() -> None:
    report = judge_storage("algo-2", ASKED, Look({}, 10.0, "no process could be started"), LOCAL)
    assert report == Report((), ("algo-2's folders (no process could be started)",))
    failed = judged(room_out={"error": "EIO", "reason": "Input/output error"})
    assert failed == Report((), ("the room of /out on algo-2 (Input/output error)",))
    assert judged(silent=("room", "/out")).unknown == ("the room of /out on algo-2 (no answer)",)


def test_the_innermost_mount_holds_a_path() -> None:
    assert file_system_of("/in/train/a", MOUNTS) == ("lustre", "/in/train")
    assert file_system_of("/in/trainer", MOUNTS) == ("overlay", "/")
    assert file_system_of("/in/my train/a", MOUNTS) == ("fuse.fastfile", "/in/my train")
    assert file_system_of("/in", "") == ("", "")
