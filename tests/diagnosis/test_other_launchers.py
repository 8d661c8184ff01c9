"""Runs that srun, mpirun, Ray, Composer or JAX started: who failed, as these tell it in their own words."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Verdict
from tests.diagnosis.cases import records
from tests.diagnosis.stories import root, steps, story

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
