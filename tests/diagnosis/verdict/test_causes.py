"""What a stop explains, and what launchers other than torchrun say of the end."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import Diagnosis, End, Ending, Stop, StopCause, Verdict
from launcher.failure_modes.model import Retry, Severity
from tests.diagnosis.cases import records
from tests.diagnosis.stories import root, steps, story

TERMINATED = """\
W0820 11:30:44.1 99 torch/distributed/agent/server/api.py:753] Received Signals.SIGTERM death signal, \
shutting down workers
W0820 11:30:44.2 99 torch/distributed/api.py:900] Sending process 105 closing signal SIGTERM
Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/run.py", line 900, in main
    run(args)
torch.distributed.elastic.multiprocessing.api.SignalException: Process 99 got signal: 15"""
"""torchrun that was ended itself, as by a scheduler."""

RANKS_TERMINATED = """\
E0820 11:30:44.1 99 torch/distributed/api.py:874] failed (exitcode: -15) local_rank: 0 \
(pid: 105) of binary: /opt/conda/bin/python
Traceback (most recent call last):
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/run.py", line 892, in run
    elastic_launch(
  File "/opt/conda/lib/python3.12/site-packages/torch/distributed/launcher/api.py", line 386, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
Root Cause (first observed failure):
[0]:
  time      : 2026-08-20_11:30:44
  host      : algo-1
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 105)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 105"""
"""torchrun whose ranks were ended, as the container's boot does it."""

RAISED = """\
Traceback (most recent call last):
  File "/opt/ml/code/train.py", line 9, in <module>
    main()
KeyError: 'label'"""

CLOSED = "[rank1]: RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.1]:8"

NOON = 1_790_000_000.0


def stopped(cause: StopCause = StopCause.ASKED, **facts: object) -> Ending:
    return Ending(End.STOPPED, "llama-1", Stop(cause, **{"at": NOON, **facts}))  # type: ignore[arg-type]


def said(diagnosis: Diagnosis) -> tuple[Verdict, str | None]:
    cause = diagnosis.root_cause
    return diagnosis.verdict, cause.finding.code if cause else None


STOPPED = (Verdict.STOPPED, "STOP001")


@pytest.mark.parametrize("text", [TERMINATED, TERMINATED.replace("Signals.SIGTERM", "15"), RANKS_TERMINATED])
def test_a_log_in_which_every_rank_ended_by_a_signal_is_of_a_job_that_was_stopped(text: str) -> None:
    diagnosis = diagnose(records(text))
    assert said(diagnosis) == STOPPED
    assert diagnosis.root_cause is not None
    assert "SIGTERM" in diagnosis.root_cause.finding.message
    assert (diagnosis.root_cause.rank, diagnosis.retry) == (None, Retry.SAME)


def test_what_the_ranks_print_after_a_signal_follows_from_it() -> None:
    text = f"{TERMINATED.splitlines()[0]}\n{RAISED}\n{CLOSED}\n{RANKS_TERMINATED}"
    diagnosis = diagnose(records(text))
    assert said(diagnosis) == STOPPED
    assert "CODE001" in [finding.code for finding in diagnosis.consequences]


def test_what_a_rank_raised_before_the_signal_is_the_failure() -> None:
    assert said(diagnose(records(f"{RAISED}\n{TERMINATED}"))) == (Verdict.FAILED, "CODE001")


def test_a_host_that_failed_by_itself_is_the_cause_though_the_others_were_then_ended() -> None:
    hosts = [*records(TERMINATED, "algo-1", NOON), *records(RAISED, "algo-2", NOON + 60)]
    assert said(diagnose(hosts)) == (Verdict.FAILED, "CODE001")


def test_connections_that_close_when_another_host_is_ended_are_no_failure() -> None:
    hosts = [*records(TERMINATED, "algo-1", NOON), *records(CLOSED, "algo-2", NOON + 1)]
    assert said(diagnose(hosts)) == STOPPED


def test_an_error_of_a_later_run_in_the_same_log_is_a_failure() -> None:
    lines = [*records(TERMINATED, "", NOON), *records(RAISED, "", NOON + 3600)]
    assert said(diagnose(lines)) == (Verdict.FAILED, "CODE001")


def test_an_exit_code_that_no_signal_gives_is_a_failure_in_a_job_that_failed() -> None:
    failed = Ending(End.FAILED, "llama-1")
    reason = "AlgorithmError: algo-2: the boot ended without a report, exit code: {}"
    for code, expected in ((1, (Verdict.FAILED, "CODE001")), (143, STOPPED)):
        found = diagnose(records(RANKS_TERMINATED, "algo-1"), reason.format(code), ending=failed)
        assert said(found) == expected


def test_ctrl_c_on_a_script_is_a_stop() -> None:
    assert said(diagnose(records(RAISED.replace("KeyError: 'label'", "KeyboardInterrupt")))) == STOPPED


def test_slurms_time_limit_is_a_stop() -> None:
    line = "slurmstepd: error: *** JOB 4711 ON gpu-1 CANCELLED AT 2026-08-20T11:30:44 DUE TO TIME LIMIT ***"
    assert said(diagnose(records(line))) == STOPPED


def test_the_containers_own_word_is_enough() -> None:
    line = "slipway: STOP001 algo-2: asked to end by SIGTERM, and ended 3 s later"
    diagnosis = diagnose(records(line, "algo-2"))
    assert said(diagnosis) == STOPPED
    assert diagnosis.root_cause is not None
    assert diagnosis.root_cause.host == "algo-2"


@pytest.mark.parametrize(
    ("stop", "words", "remedy"),
    [
        (
            Stop(StopCause.ASKED, "Ctrl-C in its launcher (process 7)", NOON),
            "stopped by Ctrl-C in its launcher (process 7) at 2026-09-21 14:13:20 UTC",
            "launch resume llama-1",
        ),
        (
            Stop(StopCause.MAX_RUNTIME, at=NOON, limit=45.0),
            "stopped by limits.max_runtime (45s) at 2026-09-21 14:13:20 UTC",
            "Raise limits.max_runtime",
        ),
        (Stop(StopCause.MAX_WAIT, at=NOON, limit=7200), "limits.max_wait (2h)", "Raise limits.max_wait"),
        (Stop(StopCause.SPOT, at=NOON), "its spot hosts were taken at", "launch resume llama-1"),
        (Stop(StopCause.LAUNCHER, "process 7"), "its launcher (process 7) was killed, and", "launch resume"),
        (Stop(StopCause.QUEUE, "budget"), "taken out of the queue: budget", "Launch the job file again"),
    ],
    ids=lambda value: str(value.cause) if isinstance(value, Stop) else "",
)
def test_a_stop_says_who_when_and_how_to_go_on(stop: Stop, words: str, remedy: str) -> None:
    diagnosis = diagnose([], ending=Ending(End.STOPPED, "llama-1", stop))
    assert said(diagnosis) == STOPPED
    assert diagnosis.root_cause is not None
    finding = diagnosis.root_cause.finding
    assert words in finding.message
    assert remedy in finding.remedy
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize("cause", [each for each in StopCause if each is not StopCause.QUEUE])
def test_a_job_without_checkpoints_is_not_advised_to_go_on_from_one(cause: StopCause) -> None:
    ending = Ending(End.STOPPED, "llama-1", Stop(cause), checkpoints=False)
    remedy = diagnose([], ending=ending).root_cause.finding.remedy
    assert "starts from the beginning" in remedy
    assert "resume" not in remedy


def test_a_stop_of_which_nothing_is_known_is_one_all_the_same() -> None:
    assert said(diagnose([], ending=Ending(End.STOPPED))) == STOPPED


def test_what_failed_just_before_the_stop_remains_the_failure_and_the_stop_follows() -> None:
    lines = [*records(RAISED, "algo-1", NOON - 9), *records(RANKS_TERMINATED, "algo-1", NOON + 1)]
    diagnosis = diagnose(lines, ending=stopped())
    assert said(diagnosis) == (Verdict.FAILED, "CODE001")
    assert [finding.code for finding in diagnosis.consequences].count("STOP001") == 1


def test_what_fails_after_the_stop_follows_from_it() -> None:
    lines = [*records(f"{RAISED}\n{CLOSED}", "algo-1", NOON), *records(RANKS_TERMINATED, "algo-1", NOON + 9)]
    diagnosis = diagnose(lines, ending=stopped())
    assert said(diagnosis) == STOPPED
    assert "CODE001" in [finding.code for finding in diagnosis.consequences]


def test_an_error_after_which_the_job_went_on_is_not_why_it_was_stopped() -> None:
    went_on = [Record(NOON - 500 + number, "algo-1", f"step {number}") for number in range(200)]
    diagnosis = diagnose([*records(RAISED, "algo-1", NOON - 600), *went_on], ending=stopped())
    assert said(diagnosis) == STOPPED
    assert diagnosis.consequences == ()
    assert [finding.code for finding in diagnosis.findings] == ["STOP001", "CODE001"]


def test_lines_that_come_after_the_stop_do_not_count_as_going_on() -> None:
    after = [Record(NOON + number, "algo-1", f"saving {number}") for number in range(200)]
    diagnosis = diagnose([*records(RAISED, "algo-1", NOON - 9), *after], ending=stopped())
    assert said(diagnosis) == (Verdict.FAILED, "CODE001")


def test_echoes_before_the_stop_are_no_failure() -> None:
    # The hosts of a spot job are taken before the service has noted it.
    lines = [*records(RANKS_TERMINATED, "algo-1", NOON - 20), *records(CLOSED, "algo-2", NOON - 19)]
    assert said(diagnose(lines, ending=stopped(StopCause.SPOT))) == STOPPED


def test_a_spot_job_that_goes_on_after_an_interruption_is_well() -> None:
    running = Ending(End.RUNNING, "llama-1")
    assert said(diagnose(records(TERMINATED, "algo-1", NOON), ending=running)) == (Verdict.HEALTHY, None)


def test_a_spot_job_that_fails_soon_after_an_interruption_failed() -> None:
    failed = Ending(End.FAILED, "llama-1")
    lines = [*records(TERMINATED, "algo-1", NOON), *records(RAISED, "algo-1", NOON + 60)]
    assert said(diagnose(lines, ending=failed)) == (Verdict.FAILED, "CODE001")


def test_the_verdict_of_a_failure_that_nothing_explains_is_unknown() -> None:
    assert said(diagnose([], ending=Ending(End.FAILED))) == (Verdict.UNKNOWN, None)


def test_a_job_that_completed_is_healthy_whatever_it_printed() -> None:
    assert said(diagnose(records(RAISED), ending=Ending(End.COMPLETED))) == (Verdict.HEALTHY, None)


def test_an_interrupt_whose_traceback_has_lost_its_beginning_is_one() -> None:
    torn = '  File "/opt/x/threading.py", line 1027, in _wait\n    elif lock.acquire(block, timeout):\n'
    assert diagnose(records(f"{torn}KeyboardInterrupt")).verdict is Verdict.STOPPED
    assert diagnose(records("INFO except KeyboardInterrupt")).verdict is not Verdict.STOPPED


def test_what_slurm_cancels_because_a_task_ended_by_itself_is_no_stop_from_outside() -> None:
    lost = "gpu018:126:199 [5] NCCL WARN Call to recv failed : Connection reset by peer"
    told = "srun: error: gpu017: task 0: Exited with exit code 1"
    cancelled = "slurmstepd: error: *** STEP 71.0 ON gpu017 CANCELLED AT 2026-08-20T11:40:09 ***"
    assert said(diagnose(records("\n".join([lost, told, cancelled])))) == (Verdict.FAILED, "NCCL006")
    assert said(diagnose(records("\n".join([lost, cancelled])))) == STOPPED


SUBSET = (
    "[1,0]<stderr>:[2019-04-13 13:58:31.870887: W horovod/common/operations.cc:588] One or more tensors were "
    "submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of "
    "ranks for more than 60 seconds."
)
FIRST_OF_MPIRUN = """\
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[29973,1],{rank}]
  Exit code:    {code}"""
UNNAMED = (
    "[E ProcessGroupNCCL.cpp:828] [Rank {}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={}, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 607565 milliseconds before timing out."
)


def missing(tensor: str, ranks: str) -> str:
    return f"[1,0]<stderr>:Stalled ops:{tensor} [missing ranks: {ranks}]"


def test_horovod_names_the_rank_that_the_others_wait_for() -> None:
    told = story("\n".join([SUBSET, missing("loss_0", "1"), missing("bias_0", "1")]))
    assert root(told) == ("NCCL004", 1)


@pytest.mark.parametrize(
    "lines",
    [
        (SUBSET,),
        (SUBSET, missing("loss_0", "1"), missing("bias_0", "0")),
        (SUBSET, missing("loss_0", "1, 2")),
    ],
    ids=["the coordinator alone", "each waits for the other", "several"],
)
def test_who_writes_of_a_stall_in_horovod_is_not_to_blame_for_it(lines: tuple[str, ...]) -> None:
    assert root(story("\n".join(lines))) == ("NCCL004", None)


def test_a_stall_in_horovod_that_ends_is_none() -> None:
    told = story("\n".join([steps(1, 20), SUBSET, missing("loss_0", "1"), steps(21, 80)]))
    assert told.verdict is Verdict.HEALTHY


@pytest.mark.parametrize(
    ("code", "mode"), [(1, "CODE001"), (137, "MEM002"), (139, "CODE004"), (134, "CODE004")]
)
def test_mpirun_names_the_rank_that_ended_first(code: int, mode: str) -> None:
    assert root(story(FIRST_OF_MPIRUN.format(rank=5, code=code))) == (mode, 5)


def test_mpirun_names_rank_and_host_that_a_signal_ended() -> None:
    said = "mpirun noticed that process rank 3 with PID 77 on node algo-2 exited on signal 9 (Killed)."
    cause = story(said).root_cause
    assert (cause.finding.code, cause.rank, cause.host) == ("MEM002", 3, "algo-2")


@pytest.mark.parametrize(
    "words", ["Rank 2 crashed with exit code {}.", "Global rank 2 (PID 208865) exited with code {}"]
)
@pytest.mark.parametrize(("code", "mode"), [(-11, "CODE004"), (-9, "MEM002"), (1, "CODE001")])
def test_composer_names_the_rank_that_ended(words: str, code: int, mode: str) -> None:
    assert root(story(f"ERROR:composer.cli.launcher:{words.format(code)}")) == (mode, 2)


def test_slurm_names_the_host_whose_memory_was_full() -> None:
    lines = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=7.0. Some of the step tasks have been OOM "
        "Killed.\n        srun: error: gpu-12: tasks 1-3: Out Of Memory"
    )
    cause = diagnose(records(lines)).root_cause
    assert (cause.finding.code, cause.host) == ("MEM002", "gpu-12")


def test_a_piece_of_what_srun_labels_is_read_as_well() -> None:
    piece = "1:     self.setup_distributed()\n1: RuntimeError: world_size (4) is not divisible by 8"
    assert diagnose(records(piece)).root_cause.finding.code == "DIST004"


@pytest.mark.parametrize(
    "line",
    [
        "[rank0]:[E ProcessGroupNCCL.cpp:455] Some NCCL operations have failed or timed out.",
        "[rank0]:[E820 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump "
        "signal due to a collective timeout from  rank 13 and we will try our best to dump the debug info.",
    ],
)
def test_who_only_tells_that_something_timed_out_is_not_to_blame(line: str) -> None:
    assert root(story(line)) == ("NCCL004", None)


def test_places_in_groups_without_a_name_are_not_compared() -> None:
    of_one = [UNNAMED.format(3, 33), UNNAMED.format(0, 34), UNNAMED.format(1, 34), UNNAMED.format(2, 34)]
    of_several = [UNNAMED.format(3, 33), *(UNNAMED.format(0, number) for number in (257, 1032, 1796))]
    assert root(story("\n".join(of_one))) == ("NCCL004", 3)
    assert root(story("\n".join(of_several))) == ("NCCL004", None)


def test_the_end_of_another_process_weighs_less_than_what_failed_in_this_one() -> None:
    lost = "Task /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that it has failed."
    full = "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3221225472 bytes."
    assert root(story(lost)) == ("NCCL006", 37)
    assert root(story(f"{lost}\n{full}"))[0] == "MEM001"
