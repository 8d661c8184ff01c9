"""A process that a signal ended: which failure mode that is, in everybody's words for it."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Verdict
from launcher.failure_modes.model import Retry
from tests.diagnosis.cases import records

TOOLKIT = (
    "2023-05-01 10:00:00,123 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:\n"
    'ExitCode {}\nErrorMessage ""\nCommand "/opt/conda/bin/python train.py"'
)
TORCHRUN = "E1 api.py:984] failed (exitcode: {}) local_rank: 1 (pid: 7) of binary: python"
SRUN = "srun: error: gpu-1: task 3: {}"


@pytest.mark.parametrize(
    ("code", "mode"),
    [
        (132, "CODE004"),
        (134, "CODE004"),
        (135, "CODE004"),
        (139, "CODE004"),
        (-4, "CODE004"),
        (-6, "CODE004"),
        (-7, "CODE004"),
        (-11, "CODE004"),
        (137, "MEM002"),
        (-9, "MEM002"),
        (1, "CODE001"),
        (2, "CODE001"),
        (143, "STOP001"),
        (-15, "STOP001"),
        (130, "STOP001"),
    ],
)
@pytest.mark.parametrize("words", [TOOLKIT, TORCHRUN, SRUN.format("Exited with exit code {}")])
def test_an_exit_code_tells_the_signal(words: str, code: int, mode: str) -> None:
    root = diagnose(records(words.format(code))).root_cause
    assert root.finding.code == mode


@pytest.mark.parametrize(
    "words", ["Exit Code: {}", ", exit code: {}", "ExecuteUserScriptError:\nExitCode {}"]
)
@pytest.mark.parametrize(
    ("code", "mode"), [(139, "CODE004"), (134, "CODE004"), (137, "MEM002"), (143, "STOP001"), (1, "CODE001")]
)
def test_so_does_the_failure_reason_of_the_service(words: str, code: int, mode: str) -> None:
    assert diagnose([], f"AlgorithmError: {words.format(code)}").root_cause.finding.code == mode


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        (SRUN.format("Segmentation fault (core dumped)"), "CODE004"),
        (SRUN.format("Bus error"), "CODE004"),
        (SRUN.format("Out Of Memory"), "MEM002"),
        (SRUN.format("Terminated"), "STOP001"),
        ("srun: error: gpu-1: tasks 0-3: Killed", "MEM002"),
        ("slurmstepd: error: StepId=7.0 exceeded memory limit (4200000 > 4194304), being killed", "MEM002"),
        ("slurmstepd: error: *** STEP 7.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 ***", "STOP001"),
        (
            "slurmstepd: error: *** STEP 7.0 CANCELLED AT 2026-08-20T11:30:44 DUE to SIGNAL Killed ***",
            "STOP001",
        ),
        (
            "slurmstepd: error: *** STEP 7.0 ON gpu-1 FAILED (non-zero exit code or other failure mode) ***",
            "CODE001",
        ),
        (
            "mpirun noticed that process rank 3 with PID 0 on node algo-2 exited on signal 9 (Killed).",
            "MEM002",
        ),
        ("[algo-2:00071] Signal: Segmentation fault (11)", "CODE004"),
        ("subprocess.CalledProcessError: Command '['python']' died with <Signals.SIGBUS: 7>.", "CODE004"),
        ("  traceback : Signal 11 (SIGSEGV) received by PID 3182701", "CODE004"),
        ("algo-1-x7k2p exited with code 139", "CODE004"),
    ],
)
def test_a_signal_is_known_by_its_name(line: str, mode: str) -> None:
    assert diagnose(records(line)).root_cause.finding.code == mode


@pytest.mark.parametrize("line", [TORCHRUN.format(-15), SRUN.format("Exited with exit code 143")])
def test_sigterm_comes_from_outside(line: str) -> None:
    assert diagnose(records(line)).root_cause.finding.code == "STOP001"


def test_tasks_that_slurm_ends_after_one_that_failed_are_no_cause() -> None:
    log = f"{SRUN.format('Exited with exit code 1')}\nsrun: error: gpu-2: tasks 8-15: Killed\n" + SRUN.format(
        "Terminated"
    )
    found = diagnose(records(log))
    assert (found.root_cause.finding.code, found.retry) == ("CODE001", Retry.NEVER)


def test_an_abort_after_a_time_out_is_the_watchdogs() -> None:
    log = (
        "[rank1]:[E ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=8, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600060 milliseconds before timing "
        "out.\n"
        "terminate called after throwing an instance of 'c10::DistBackendError'\n" + TORCHRUN.format(-6)
    )
    assert diagnose(records(log)).root_cause.finding.code == "NCCL004"


def test_a_crash_names_who_crashed() -> None:
    root = diagnose(records(TORCHRUN.format(-11))).root_cause
    assert root.finding.subject == "local rank 1"
    assert "SIGSEGV" in root.finding.message


def test_the_toolkits_message_is_told_where_it_has_one() -> None:
    log = 'ERROR    ExecuteUserScriptError:\nExitCode 1\nErrorMessage "RuntimeError: shape mismatch"'
    assert "shape mismatch" in diagnose(records(log)).root_cause.finding.message


@pytest.mark.parametrize(
    "line", ["exit code: 1370", "INFO job finished with exit code 0", "exited with code 0"]
)
def test_other_numbers_are_no_signal(line: str) -> None:
    assert diagnose(records(line)).root_cause is None


@pytest.mark.parametrize("code", ["143", "-15"])
def test_the_toolkit_of_the_images_names_the_signal_below_the_error(code: str) -> None:
    found = diagnose(records(f"step 1 loss 2\n{TOOLKIT.format(code)}"))
    assert (found.verdict, found.retry) == (Verdict.STOPPED, Retry.SAME)


def test_what_an_exit_code_of_its_own_says_is_not_taken_back_by_a_signal_below_it() -> None:
    after = f"{TOOLKIT.format(1)}\n{SRUN.format('Terminated')}"
    assert diagnose(records(after)).root_cause.finding.code == "CODE001"


BY_MPIRUN = (
    "mpirun detected that one or more processes exited with non-zero status, thus causing\n"
    "the job to be terminated. The first process to do so was:\n\n"
    "  Process name: {}\n"
    "  Exit code:    {}"
)


@pytest.mark.parametrize(("code", "mode"), [(1, "CODE001"), (139, "CODE004"), (137, "MEM002")])
@pytest.mark.parametrize("name", ["[[29973,1],3]", "[prterun-gpu-1-4711@1,3]"])
def test_mpirun_names_who_ended_first_and_how(name: str, code: int, mode: str) -> None:
    root = diagnose(records(BY_MPIRUN.format(name, code))).root_cause
    assert root.finding.code == mode
    assert code != 1 or root.rank == 3


def test_mpirun_names_whom_a_signal_ended() -> None:
    line = "prterun noticed that process rank 7 with PID 0 on node gpu-4 exited on signal 6 (Aborted)."
    root = diagnose(records(line)).root_cause
    assert (root.finding.code, root.rank, root.host) == ("CODE004", 7, "gpu-4")


def test_that_mpirun_ended_the_job_is_no_good_end() -> None:
    log = (
        "Primary job  terminated normally, but 1 process returned\n"
        "a non-zero exit code. Per user-direction, the job has been aborted."
    )
    assert diagnose(records(log)).root_cause.finding.code == "CODE001"


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("[1]    75076 killed     python main.py --epochs 3", "MEM002"),
        ("[1]+  Killed                  nohup python train.py", "MEM002"),
        ("[2]  + 4711 segmentation fault (core dumped)  python train.py", "CODE004"),
        (
            "[Mon Jun 23 19:39:31 2025] pt_main_thread[3078129]: segfault at 60 ip 00007f24b8cf2616 sp "
            "00007ffc0f212680 error 4 in libc10_cuda.so[7f24b8cc8000+5c000] likely on CPU 15",
            "CODE004",
        ),
    ],
)
def test_shells_and_the_kernel_tell_of_what_died(line: str, mode: str) -> None:
    assert diagnose(records(f"step 7 loss 2.1\n{line}")).root_cause.finding.code == mode


def test_the_kernels_word_on_another_program_is_none_of_ours() -> None:
    line = "[Mon Jun 23 19:39:31 2025] nautilus[77]: segfault at 60 ip 0000f24b8 sp 0000f0c0 error 4"
    assert diagnose(records(f"step 7 loss 2.1\n{line}")).root_cause is None


@pytest.mark.parametrize(
    ("message", "mode"),
    [
        ("ModuleNotFoundError: No module named 'tensorflow'#015\n #015\n During handling of", "CODE005"),
        ("train.py: error: unrecognized arguments: --lr", "CODE002"),
    ],
)
def test_what_the_toolkit_quotes_is_read_like_a_line_of_the_script(message: str, mode: str) -> None:
    log = f'sagemaker-training-toolkit ERROR    ExecuteUserScriptError:\nExitCode 1\nErrorMessage "{message}'
    assert diagnose(records(log)).root_cause.finding.code == mode


def of_ranks(count: int) -> str:
    """What NCCL says of a job with so many ranks."""
    return f"gpu-1:7:8 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks {count} cudaDev 0 busId 1c0\n"


ENDED_BY_SRUN = "srun: error: gpu-1: tasks 0-3: Terminated\nsrun: error: gpu-2: tasks 4,6-7: Terminated"


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ("Segmentation fault (core dumped)", "CODE004"),
        ("Aborted (core dumped)", "CODE004"),
        ("Out Of Memory", "MEM002"),
    ],
)
def test_the_task_that_failed_is_the_rank_where_there_are_as_many_tasks_as_ranks(
    words: str, mode: str
) -> None:
    log = (
        f"srun: error: gpu-2: task 5: {words}\nsrun: Terminating StepId=7.0\n"
        f"slurmstepd: error: *** STEP 7.0 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 ***\n{ENDED_BY_SRUN}"
    )
    cause = diagnose(records(of_ranks(8) + log)).root_cause
    assert (cause.finding.code, cause.rank, cause.host) == (mode, 5, "gpu-2")
    assert diagnose(records(of_ranks(64) + log)).root_cause.rank is None


def test_what_slurmstepd_says_of_a_step_is_of_the_task_that_srun_names() -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM "
        f"Killed.\nsrun: error: gpu-2: task 5: Out Of Memory\n{ENDED_BY_SRUN}"
    )
    assert diagnose(records(of_ranks(8) + log)).root_cause.rank == 5


def test_mpirun_names_the_rank_that_a_signal_ended_and_its_host() -> None:
    line = "mpirun noticed that process rank 3 with PID 0 on node ip-10-0-1-7 exited on signal 9 (Killed)."
    cause = diagnose(records(line)).root_cause
    assert (cause.finding.code, cause.rank, cause.host) == ("MEM002", 3, "ip-10-0-1-7")
