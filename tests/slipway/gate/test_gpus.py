"""What is wrong with a GPU, by what the driver's tools printed; nvidia_smi/README.md has the origins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from slipway.gate.asking import CommandOutput
from slipway.gate.findings import Report
from slipway.gate.gpus import judge_gpus, read_driver, torch_cuda_of, visible_gpus
from slipway.gate.machine import Nvidia

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
