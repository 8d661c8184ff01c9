"""What hosts themselves record: the kernel's log and the driver's view of its GPUs, in their own words."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.evidence.collect import evidence_of
from launcher.diagnosis.evidence.dumps import FileEvidence
from launcher.diagnosis.logs.lines import LogRecord, Record
from launcher.diagnosis.model import Diagnosis, Verdict
from launcher.diagnosis.signatures import LineRole

NOON = 1_787_227_200.0
"""2026-08-20 12:00 UTC."""

LOST = "NVRM: Xid (PCI:0000:b2:00): 79, pid=77, name=python3, GPU has fallen off the bus."
ECC = "NVRM: Xid (PCI:0000:b2:00): 94, pid=77, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
OOM = "Memory cgroup out of memory: Killed process 10231 (python3) total-vm:92kB, anon-rss:81kB, file-rss:0kB"
QUIET = "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0"


def kernel(text: str, stamp: str = "[ 8123.401234] ") -> str:
    return "".join(f"{stamp}{line}\n" for line in (QUIET, QUIET, text, QUIET))


def found(name: str, text: str) -> FileEvidence:
    evidence = evidence_of(name, text.encode()[:4096], lambda _: text.encode())
    assert evidence is not None
    return evidence


def told(text: str, *lines: LogRecord, name: str = "algo-2/dmesg.log") -> Diagnosis:
    return diagnose(lines, evidence=[found(name, text)])


def steps(count: int, *more: str) -> list[LogRecord]:
    texts = [*(f"step {number} loss 2" for number in range(count)), *more]
    return [Record(NOON - len(texts) + number, "algo-2", text) for number, text in enumerate(texts)]


@pytest.mark.parametrize(
    "stamp",
    [
        "[ 8123.401234] ", "<3>[ 8123.401234] ", "[  +0.000316] ", "[Thu Aug 20 11:59:30 2026] ",
        "2026-08-20T11:59:30,123456+00:00 ", "2026-08-20T11:59:30.123456+00:00 gpu-1 kernel: ",
        "Aug 20 11:59:30 gpu-1 kernel: ", "Aug 20 11:59:30 gpu-1 kernel: [ 8123.401234] ",
    ],
)  # fmt: skip
@pytest.mark.parametrize(("text", "code"), [(LOST, "HW002"), (ECC, "HW001"), (OOM, "MEM002")])
def test_the_kernels_log_tells_of_faults_whichever_clock_it_has(stamp: str, text: str, code: str) -> None:
    cause = told(kernel(text, stamp)).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == (code, None)


def test_it_names_the_host_and_what_was_killed() -> None:
    cause = told(kernel(OOM)).root_cause
    assert cause is not None
    assert cause.host == "algo-2"
    assert "the kernel killed python3 (process 10231): Memory cgroup out of memory" in cause.finding.message
    of_journal = told(kernel(LOST, "Aug 20 11:59:30 gpu-1 kernel: ")).root_cause
    assert of_journal is not None
    assert of_journal.host == "gpu-1"


def test_who_was_killed_goes_before_that_somebody_will_be() -> None:
    text = f"python3 invoked oom-killer: gfp_mask=0xcc0, order=0\n[ 8123.401235] {OOM}"
    cause = told(kernel(text)).root_cause
    assert cause is not None
    assert "killed python3 (process 10231)" in cause.finding.message


def test_a_fault_explains_what_the_job_met_shortly_after() -> None:
    end = "RuntimeError: CUDA error: unspecified launch failure"
    cause = told(kernel(LOST, "[Thu Aug 20 11:59:30 2026] "), *steps(9, end)).root_cause
    assert cause is not None
    assert "Xid 79" in cause.finding.message


def test_a_fault_of_another_day_explains_nothing_and_is_told() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    diagnosis = told(kernel(LOST, "[Tue Aug 18 11:59:30 2026] "), *steps(9, error))
    assert diagnosis.root_cause is not None
    assert diagnosis.root_cause.finding.code == "MEM001"
    assert "at another time" in next(each.message for each in diagnosis.findings if each.code == "HW002")


def test_what_the_job_itself_says_plainly_goes_before_an_undated_fault() -> None:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
    cause = told(kernel(LOST), *steps(9, error)).root_cause
    assert cause is not None
    assert cause.finding.code == "MEM001"


def test_a_job_that_ended_well_did_so_on_a_host_with_a_fault() -> None:
    diagnosis = told(kernel(LOST), *steps(9, "Training finished"))
    assert (diagnosis.verdict, [each.code for each in diagnosis.findings]) == (Verdict.HEALTHY, ["HW002"])


def test_a_quiet_kernel_says_nothing_of_a_job() -> None:
    assert told(kernel(QUIET), *steps(9)).verdict is Verdict.HEALTHY
    assert evidence_of("a.log", b"step 1\n[ 8123.401234] NVRM: loading\nstep 2\n", lambda _: b"") is None


SMI = """
==============NVSMI LOG==============

Timestamp                                 : Thu Aug 20 12:00:00 2026
Driver Version                            : 570.158.01
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:10:1C.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : {parity}
            DRAM Correctable              : 12
            DRAM Uncorrectable            : 0
        Aggregate
            DRAM Correctable              : 12
            DRAM Uncorrectable            : 3
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : {rows}
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
    Clocks Event Reasons
        Idle                              : Active
        HW Thermal Slowdown               : {hot}
        SW Power Cap                      : Active
GPU 00000000:10:1D.0
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 0
"""
WELL = {"parity": "0", "rows": "0", "pending": "No", "failed": "No", "hot": "Not Active"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("parity", "2", "2 errors of its memory that could not be corrected"),
        ("pending", "Yes", "a row to be remapped"),
        ("failed", "Yes", "remapping failed"),
    ],
)
def test_a_gpu_whose_memory_is_broken_is_named(field: str, value: str, words: str) -> None:
    cause = told(SMI.format(**{**WELL, field: value}), name="algo-1/nvidia-smi.txt").root_cause
    assert cause is not None
    assert (cause.finding.code, cause.host) == ("HW001", "algo-1")
    assert cause.finding.subject == "GPU 00000000:10:1C.0"
    assert words in cause.finding.message


@pytest.mark.parametrize(("field", "value", "code"), [("hot", "Active", "HW002"), ("rows", "4", "MEM003")])
def test_what_makes_a_gpu_slow_or_smaller_is_advice(field: str, value: str, code: str) -> None:
    diagnosis = told(SMI.format(**{**WELL, field: value}), *steps(9))
    assert (diagnosis.verdict, [each.code for each in diagnosis.findings]) == (Verdict.HEALTHY, [code])


@pytest.mark.parametrize("section", ["Clocks Event Reasons", "Clocks Throttle Reasons"])
@pytest.mark.parametrize(
    "reason", ["HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown"]
)
def test_whatever_slows_a_gpu_down_is_told_and_is_no_failure(section: str, reason: str) -> None:
    text = (
        "==============NVSMI LOG==============\nGPU 00000000:10:1C.0\n"
        f"    {section}\n        Idle : Not Active\n        HW Slowdown : Not Active\n"
        f"        {reason} : Active\n"
    )
    diagnosis = told(text, *steps(9))
    assert (diagnosis.verdict, len(diagnosis.findings)) == (Verdict.HEALTHY, 1)
    assert f"GPU 00000000:10:1C.0 is slowed down: {reason}" in diagnosis.findings[0].message


def test_caps_of_power_and_settings_hold_every_busy_gpu_down() -> None:
    text = SMI.format(**WELL).replace("SW Power Cap ", "Sync Boost        : Active\n        SW Power Cap ")
    assert found("nvidia-smi.txt", text).of_hosts == ()


def test_for_how_long_a_gpu_was_slowed_down_is_told_where_that_is_long() -> None:
    counters = (
        "==============NVSMI LOG==============\nGPU 00000000:10:1C.0\n    Clocks Event Reasons Counters\n"
        "        SW Power Capping : 12234991553 us\n        SW Thermal Slowdown : {} us\n"
        "        HW Thermal Slowdown : 0 us\n        HW Power Braking : 5000000 us\n"
    )
    whats = [sign.what for sign in found("smi.txt", counters.format(11591399010)).of_hosts]
    assert whats == [
        "GPU 00000000:10:1C.0 was slowed down since its driver was loaded: SW Thermal Slowdown for 3 hours"
    ]
    assert found("smi.txt", counters.format(15460893)).of_hosts == ()


COLUMNS = "timestamp, index, clocks.current.sm [MHz], clocks_event_reasons.hw_thermal_slowdown"


def samples(columns: str, *rows: str, name: str = "algo-2/clocks.csv") -> list[str]:
    evidence = found(name, "\n".join([columns, *rows]))
    assert all(sign.role is LineRole.ADVISORY and sign.host == "algo-2" for sign in evidence.of_hosts)
    return [sign.what for sign in evidence.of_hosts]


def test_samples_tell_which_gpu_was_slowed_down_and_how_often() -> None:
    rows = [
        f"2026/08/20 12:00:{second:02}.000, {gpu}, 1980 MHz, "
        f"{'Active' if gpu == 3 and second < 20 else 'Not Active'}"
        for second in range(40)
        for gpu in range(8)
    ]
    assert samples(COLUMNS, *rows) == [
        "GPU 3 was slowed down: hw_thermal_slowdown in 20 of 40 samples",
    ]


def test_a_sample_or_two_are_no_slow_gpu() -> None:
    rows = [f"now, 0, 1980 MHz, {'Active' if second == 0 else 'Not Active'}" for second in range(40)]
    assert samples(COLUMNS, *rows) == []


def test_the_bits_of_all_reasons_are_read() -> None:
    columns = "clocks_throttle_reasons.active"
    assert samples(f"pci.bus_id, {columns}", "0000:10:1C.0, 0x0000000000000020") == [
        "GPU 0000:10:1C.0 was slowed down: sw_thermal_slowdown in 1 of 1 samples"
    ]
    assert samples(f"pci.bus_id, {columns}", "0000:10:1C.0, 0x0000000000000004", "torn, 0x", "torn") == []


def test_a_slow_gpu_is_never_why_a_job_failed() -> None:
    rows = "\n".join([COLUMNS, "now, 0, 1980 MHz, Active"])
    assert told(rows, *steps(9), name="clocks.csv").verdict is Verdict.HEALTHY


def test_gpus_that_are_well_say_nothing_nor_do_errors_of_an_earlier_life() -> None:
    assert found("nvidia-smi.txt", SMI.format(**WELL)).of_hosts == ()


def test_older_drivers_count_double_bits_and_retire_pages() -> None:
    text = (
        "==============NVSMI LOG==============\nGPU 00000000:00:1E.0\n    Ecc Errors\n        Volatile\n"
        "            Double Bit\n                Device Memory : 1\n                Total : 1\n"
        "    Retired Pages\n        Double Bit ECC            : 1\n        Pending Page Blacklist    : Yes\n"
    )
    whats = [sign.what for sign in found("smi.txt", text).of_hosts]
    assert whats[0] == "GPU 00000000:00:1E.0 met 1 errors of its memory that could not be corrected"
    assert "a page to be retired" in whats[1]


def test_a_lost_gpu_is_a_fault() -> None:
    text = "==============NVSMI LOG==============\nGPU 00000000:00:1E.0\n    Product Name : GPU is lost\n"
    assert [sign.code for sign in found("smi.txt", text).of_hosts] == ["HW002"]


@pytest.mark.parametrize(
    "line",
    [
        "algo-1:100:400 [0] NCCL INFO NET/OFI Selected provider is efa",
        "step 4 loss 2.31",
        "W1201 00:14:03.918391 31 torch/distributed/run.py:792] Setting OMP_NUM_THREADS",
        "2026-08-20 11:59:30,001 sagemaker-training-toolkit INFO     Invoking user script",
    ],
)
@pytest.mark.parametrize("stamp", ["2026-08-20T11:59:30.123Z ", "2026-08-20T11:59:30.123456789+00:00 "])
def test_lines_that_a_container_stamps_are_no_kernels(stamp: str, line: str) -> None:
    text = f"{stamp}{line}\n" * 9
    assert evidence_of("algo-1.log", text.encode(), lambda _: text.encode()) is None


@pytest.mark.parametrize(("day", "verdict"), [("Aug 20 11:59:30", "failed"), ("Aug 20 08:59:30", "unknown")])
def test_a_date_without_a_year_is_of_the_jobs_year(day: str, verdict: str) -> None:
    found = told(kernel(OOM, f"{day} gpu-1 kernel: "), *steps(9, "something else went wrong: error 7"))
    assert found.verdict is Verdict(verdict)


def test_at_new_year_a_date_without_a_year_is_of_the_year_before() -> None:
    text = kernel(OOM, "Dec 31 23:59:30 gpu-1 kernel: ")
    new_year = 1_798_761_600.0  # 2027-01-01 00:00 UTC
    lines = [Record(new_year + number, "algo-2", f"step {number} loss 2") for number in range(9)]
    cause = told(text, *lines).root_cause
    assert cause is not None
    assert cause.finding.code == "MEM002"


def test_a_fault_that_one_rank_met_is_that_ranks() -> None:
    end = "[rank13]: RuntimeError: CUDA error: unspecified launch failure"
    tables = [
        "Root Cause (first observed failure):\n"
        f"  rank      : {rank} (local_rank: 5)\n  exitcode  : 1 (pid: 7)"
        for rank in (5, 13)
    ]
    lines = [line for table in tables for line in table.split("\n")]
    found = diagnose(steps(9, end, *lines), evidence=[found_in_no_host()])
    assert found.root_cause is not None
    assert (found.root_cause.finding.code, found.root_cause.rank) == ("HW002", 13)


def found_in_no_host() -> FileEvidence:
    return found("gpu018-dmesg.log", kernel(LOST, "[Thu Aug 20 11:59:30 2026] "))
