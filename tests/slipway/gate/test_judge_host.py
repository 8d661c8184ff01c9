"""A host is judged: its GPUs by nvidia-smi's own output, and what it can store and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from slipway.gate.judge_host import (
    AskedFolders,
    Report,
    judge_gpus,
    judge_storage,
    read_driver,
    torch_cuda_of,
    visible_gpus,
)
from slipway.gate.probe_host import CommandOutput, Look, Nvidia, file_system_of

TEXTS = Path(__file__).parent / "nvidia_smi"
H100 = (TEXTS / "h100-580.xml").read_text()


def judged(
    output: str = H100,
    *,
    exit_code: int | None = 0,
    processes: int = 1,
    kernel: str = "",
    visible: str | None = None,
    cuda: str | None = "13.0",
) -> Report:
    nvidia = Nvidia(True, CommandOutput(exit_code, output), kernel, visible)
    return judge_gpus("algo-2", nvidia, processes, cuda)


def codes(report: Report) -> Sequence[tuple[str, bool]]:
    return [(finding.code, finding.ends) for finding in report.findings]


@pytest.mark.parametrize(
    ("file", "driver", "cuda", "uncorrectable", "used"),
    [
        ("a10g.xml", "515.105.01", "11.7", [0], [22]),
        ("tesla-t4.xml", "515.105.01", "11.7", [0], [1032]),
        ("quadro-p2000-v12.xml", "525.125.06", "12.0", [None], None),
        ("a100-sxm4-v12.xml", "535.54.03", "12.2", [0], None),
        ("h100-580.xml", "580.159.04", "13.0", [0], [0]),
    ],
)
def test_the_drivers_of_five_years_are_read(
    file: str, driver: str, cuda: str, uncorrectable: list[int | None], used: list[float] | None
) -> None:
    read = read_driver((TEXTS / file).read_text())
    assert (read.version, read.cuda) == (driver, cuda)
    assert [gpu.uncorrectable for gpu in read.gpus] == uncorrectable
    assert used is None or [gpu.used for gpu in read.gpus] == used
    assert all(gpu.repairs == () and gpu.recovery is None for gpu in read.gpus)


@pytest.mark.parametrize("file", ["a10g.xml", "a100-sxm4-v12.xml", "h100-580.xml"])
def test_a_sound_gpu_gives_no_finding(file: str) -> None:
    assert judged((TEXTS / file).read_text(), cuda="11.7") == Report()


def test_a_gpu_that_counts_no_memory_errors_is_not_known_to_be_sound() -> None:
    report = judged((TEXTS / "quadro-p2000-v12.xml").read_text(), cuda="11.7")
    assert not report.findings
    assert "memory errors of the GPUs" in report.unknown[0]


@pytest.mark.parametrize(
    ("file", "field", "value", "code", "said"),
    [
        ("h100-580.xml", "dram_uncorrectable", "2", "HW001", "counts 2 uncorrectable memory errors"),
        ("h100-580.xml", "sram_uncorrectable_parity", "1", "HW001", "counts 1 uncorrectable"),
        ("a10g.xml", "sram_uncorrectable", "3", "HW001", "counts 3 uncorrectable"),
        ("a10g.xml", "remapped_row_pending", "Yes", "HW001", "wait for a reset to be remapped"),
        ("h100-580.xml", "remapped_row_failure", "Yes", "HW001", "could not be remapped"),
        ("tesla-t4.xml", "pending_retirement", "Yes", "HW001", "wait for a reset to be retired"),
        ("h100-580.xml", "unrepairable_memory", "Yes", "HW001", "cannot be repaired"),
        ("h100-580.xml", "gpu_recovery_action", "Reset", "HW002", "the driver asks for 'Reset'"),
    ],
)
def test_a_broken_gpu_is_named_with_what_was_measured(
    file: str, field: str, value: str, code: str, said: str
) -> None:
    text = (TEXTS / file).read_text()
    old = next(f"<{field}>{each}</{field}>" for each in ("0", "No", "None") if f"<{field}>{each}<" in text)
    report = judged(text.replace(old, f"<{field}>{value}</{field}>", 1), cuda="11.7")
    assert codes(report)[:1] == [(code, True)]
    assert said in report.findings[0].text
    assert read_driver(text).gpus[0].place in report.findings[0].text


def test_what_was_counted_in_the_gpus_whole_life_is_no_finding() -> None:
    before, aggregate, after = H100.partition("<aggregate>")
    after = after.replace("<dram_uncorrectable>0<", "<dram_uncorrectable>7<", 1)
    assert judged(before + aggregate + after) == Report()


def test_memory_that_others_hold_is_a_warning_with_the_figure() -> None:
    assert codes(judged((TEXTS / "tesla-t4.xml").read_text(), cuda="11.7")) == [("MEM003", False)], (
        "it was recorded in use"
    )
    report = judged(H100.replace("<used>0 MiB</used>", "<used>31000 MiB</used>", 1))
    assert codes(report) == [("MEM003", False)]
    assert "31000 of 81559 MiB" in report.findings[0].text


@pytest.mark.parametrize(
    ("processes", "visible", "expected"),
    [
        (1, None, []),
        (2, None, [("DIST003", True)]),
        (2, "", []),
        (1, "0", []),
        (2, "0,GPU-1111", []),
    ],
)
def test_more_processes_than_visible_devices_end_the_job(
    processes: int, visible: str | None, expected: list[tuple[str, bool]]
) -> None:
    two = H100.replace("</nvidia_smi_log>", "") if visible == "0,GPU-1111" else H100
    if two is not H100:
        gpu = H100[H100.index("<gpu id=") : H100.index("</gpu>") + 6]
        two += gpu + "</nvidia_smi_log>"
    assert codes(judged(two, processes=processes, visible=visible)) == expected


def test_fewer_processes_than_devices_are_told_with_how_many_would_be_idle() -> None:
    gpu = H100[H100.index("<gpu id=") : H100.index("</gpu>") + 6]
    eight = H100.replace("</nvidia_smi_log>", gpu * 7 + "</nvidia_smi_log>")
    report = judged(eight, processes=4)
    assert codes(report) == [("DIST001", False)]
    assert "4 processes for 8 GPUs: 4 of them would be idle" in report.findings[0].text
    assert judged(eight, processes=8) == Report()


@pytest.mark.parametrize(
    ("cuda", "expected"),
    [("13.1", []), ("12.8", []), ("14.0", [("IMG002", True)]), (None, [])],
)
def test_only_a_newer_major_version_of_cuda_needs_a_newer_driver(
    cuda: str | None, expected: list[tuple[str, bool]]
) -> None:
    assert codes(judged(cuda=cuda)) == expected


def test_with_the_images_library_for_it_an_older_driver_is_fine() -> None:
    nvidia = Nvidia(True, CommandOutput(0, H100), has_compatibility=True)
    assert codes(judge_gpus("algo-1", nvidia, 1, "14.0")) == []


# NVIDIA's documentation of nvidia-smi; "GPU is lost" and "Unable to determine" as R470 to R550 print them.
@pytest.mark.parametrize(
    ("output", "code"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
            "the latest NVIDIA driver is installed and running.",
            "IMG002",
        ),
        ("Failed to initialize NVML: Driver/library version mismatch", "IMG002"),
        (
            "Unable to determine the device handle for GPU 0000:10:1C.0: GPU is lost.  Reboot the system",
            "HW002",
        ),
        ("Unable to determine the device handle for GPU0: 0000:10:1C.0: Unknown Error\n", "HW002"),
    ],
)
def test_a_driver_or_gpu_that_is_gone_is_named_in_the_tools_own_words(output: str, code: str) -> None:
    report = judged(output, exit_code=15)
    assert codes(report) == [(code, True)]
    assert output[:40] in report.findings[0].text


@pytest.mark.parametrize("output", ["", "a new world", "<nvidia_smi_log><gpu></nvidia_smi_log>"])
def test_what_cannot_be_read_is_said_and_not_passed(output: str) -> None:
    report = judged(output, exit_code=1)
    assert not report.findings
    assert "the GPUs of algo-2" in report.unknown[0]


def test_a_tool_that_does_not_answer_is_a_fault_of_the_gpu() -> None:
    report = judged("", exit_code=None)
    assert codes(report) == [("HW002", True)]


# Lines of NVIDIA's Xid documentation and of tests/logs.
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("[  9.1] NVRM: Xid (PCI:0000:b2:00): 79, pid=7, GPU has fallen off the bus.", ["HW002"]),
        ("NVRM: Xid (PCI:0000:b2:00): 48, pid=7, name=python3, DBE detected", ["HW001"]),
        ("NVRM: Xid (PCI:0000:b2:00): 31, pid=7, name=python3, MMU Fault: ENGINE GRAPHICS", []),
        ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.159.04", []),
    ],
)
def test_an_xid_of_a_broken_gpu_is_found_in_the_kernels_log(line: str, expected: list[str]) -> None:
    assert [finding.code for finding in judged(kernel=line).findings] == expected


def test_a_host_without_a_driver_has_nothing_to_judge() -> None:
    assert judge_gpus("algo-1", Nvidia(False), 8, None) == Report()


def test_the_cuda_of_torch_is_read_from_its_own_file() -> None:
    assert torch_cuda_of("__version__ = '2.11.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n") == "13.0"
    assert torch_cuda_of("__version__ = '1.13.1'\ncuda = '11.7'\n") == "11.7"
    assert torch_cuda_of("cuda: Optional[str] = None\n") is None


def test_visible_devices_end_at_the_first_that_does_not_exist() -> None:
    gpus = read_driver(H100).gpus
    assert visible_gpus(gpus, "0") == list(gpus)
    assert visible_gpus(gpus, "5,0") == []
    assert visible_gpus(gpus, None) == list(gpus)


ASKED = AskedFolders({"train": "/in/train"}, "/ckpt", ("/out", "/ckpt"), "/dev/shm")
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


def judged_storage(mounts: str = LOCAL, *, silent: tuple[str, str] | None = None, **changed: Any) -> Report:
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
    assert judged_storage() == Report()
    assert judged_storage(MOUNTS) == Report()


@pytest.mark.parametrize(("mounts", "code"), [(MOUNTS, "FSX005"), (LOCAL, "S3002")])
def test_a_channel_that_cannot_be_read_has_the_code_of_what_it_lies_on(mounts: str, code: str) -> None:
    found = only(judged_storage(mounts, read_in_train={"error": "EIO", "reason": "Input/output error"}))
    assert found[:2] == (code, True)
    assert "the channel train at /in/train" in found[2]
    assert "Input/output error (EIO)" in found[2]


@pytest.mark.parametrize(("mounts", "code"), [(MOUNTS, "FSX005"), (LOCAL, "S3001")])
def test_an_empty_channel_is_told(mounts: str, code: str) -> None:
    assert only(judged_storage(mounts, read_in_train={"entries": 0}))[:2] == (code, False)


def test_a_channel_that_does_not_answer_is_a_dead_mount() -> None:
    code, ends, text = only(judged_storage(MOUNTS, silent=("read", "/in/train")))
    assert (code, ends) == ("FSX005", True)
    assert "the lustre mount /in/train) did not answer within 10 s" in text


def test_checkpoints_on_a_dead_mount_are_found_before_the_first_save() -> None:
    code, ends, text = only(judged_storage(silent=("write", "/ckpt")))
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
    found = only(judged_storage(write_ckpt={"error": error, "reason": reason}))
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
    report = judged_storage(room_out=room, room_ckpt=room)
    assert expected == (only(report)[:2] if report.findings else None)


def test_a_disk_without_inodes_is_full_although_bytes_are_free() -> None:
    code, ends, text = only(judged_storage(room_out={**ROOM, "free_files": 0}))
    assert (code, ends) == ("DISK001", True)
    assert "all 1000000 inodes are taken" in text


def test_a_file_system_that_counts_no_inodes_is_sound() -> None:
    assert judged_storage(room_out={**ROOM, "files": 0, "free_files": 0}) == Report()


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
    report = judged_storage(room_dev_shm={"bytes": size, "free": free, "files": 1, "free_files": 1})
    assert expected == (only(report)[:2] if report.findings else None)


def test_what_could_not_be_asked_is_said_and_not_passed() -> None:
    report = judge_storage("algo-2", ASKED, Look({}, 10.0, "no process could be started"), LOCAL)
    assert report == Report((), ("algo-2's folders (no process could be started)",))
    failed = judged_storage(room_out={"error": "EIO", "reason": "Input/output error"})
    assert failed == Report((), ("the room of /out on algo-2 (Input/output error)",))
    assert judged_storage(silent=("room", "/out")).unknown == ("the room of /out on algo-2 (no answer)",)


def test_the_innermost_mount_holds_a_path() -> None:
    assert file_system_of("/in/train/a", MOUNTS) == ("lustre", "/in/train")
    assert file_system_of("/in/trainer", MOUNTS) == ("overlay", "/")
    assert file_system_of("/in/my train/a", MOUNTS) == ("fuse.fastfile", "/in/my train")
    assert file_system_of("/in", "") == ("", "")
