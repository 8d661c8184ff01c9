"""A local rank is told as the global one where plan or log say which that is, and nowhere else."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import RootCause
from launcher.diagnosis.record import Record
from launcher.diagnosis.remedies.asked_job import AskedJob

RAISED = (
    "[default3]:Traceback (most recent call last):\n"
    '[default3]:  File "train.py", line 9, in <module>\n[default3]:    step()\n'
    "[default3]:KeyError: 'label'"
)
OTHERS = "\n".join(f"[default{local}]:step 5 loss 2.0" for local in range(8))


def root(job: AskedJob | None = None, **hosts: str) -> RootCause:
    """The root cause in what hosts printed; without a name the host is not known."""
    lines = [
        Record(None, host.replace("_", "-") if host != "unnamed" else "", line, host)
        for host, text in hosts.items()
        for line in text.split("\n")
    ]
    found = diagnose(lines) if job is None else diagnose(lines, job=job)
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "CODE001"
    return found.root_cause


def table(rank: int, local: int) -> str:
    return (
        f"Root Cause (first observed failure):\n[0]:\n  rank      : {rank} (local_rank: {local})\n"
        "  exitcode  : 1 (pid: 7)"
    )


def test_the_plan_tells_the_rank_of_a_local_one() -> None:
    cause = root(AskedJob(processes_per_host=8), algo_1=OTHERS, algo_2=f"{OTHERS}\n{RAISED}")
    assert (cause.rank, cause.host, cause.finding.subject) == (11, "algo-2", "rank 11")


def test_so_does_what_the_boot_of_the_first_host_says() -> None:
    boot = "slipway: algo-1, host 1 of 2: ml.p4d.24xlarge (8 GPUs), train.py by torchrun, 8 per host"
    assert root(algo_1=f"{boot}\n{OTHERS}", algo_2=RAISED).rank == 11


def test_without_either_it_is_a_local_rank() -> None:
    cause = root(algo_1=OTHERS, algo_2=RAISED)
    assert (cause.rank, cause.finding.subject) == (None, "local rank 3")


def test_what_has_no_number_or_more_ranks_than_the_plan_stays_local() -> None:
    assert root(AskedJob(processes_per_host=8), trainer=RAISED).rank is None
    assert root(AskedJob(processes_per_host=2), algo_2=RAISED).rank is None


@pytest.mark.parametrize(
    "said",
    [
        table(9, 1),
        "  local_ranks=[0, 1, 2, 3]\n  global_ranks=[8, 9, 10, 11]\n  global_world_sizes=[12, 12, 12, 12]",
        "torchrun --nnodes 2 --nproc_per_node 8 --master_addr algo-1 --node_rank 1 train.py",
        "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=static --node-rank=1 train.py",
    ],
    ids=["torchrun's table", "its rendezvous", "its command", "its command with hyphens"],
)
def test_what_torchrun_says_of_one_rank_of_a_host_tells_the_others(said: str) -> None:
    assert root(algo_2=f"{said}\n{RAISED}\n{OTHERS}").rank == 11


def test_hosts_that_meet_by_themselves_have_no_number_before() -> None:
    said = "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --node-rank=1 train.py"
    assert root(algo_2=f"{said}\n{RAISED}").rank is None


def test_of_a_host_of_which_two_lines_tell_otherwise_no_rank_is_named() -> None:
    assert root(algo_2=f"{RAISED}\n{table(9, 1)}\n{table(17, 1)}").rank is None


def test_where_lines_of_several_hosts_may_be_mixed_the_word_of_one_tells_nothing() -> None:
    assert root(unnamed=f"{RAISED}\n{table(9, 1)}").rank is None
    prefixed = "\n".join(f"[pod/train-1/pytorch] {line}" for line in f"{RAISED}\n{table(9, 1)}".split("\n"))
    assert root(unnamed=prefixed).rank == 11


def test_a_world_that_one_host_holds_has_no_other_ranks() -> None:
    assert root(unnamed=f"world_size: 8\n{OTHERS}\n{RAISED}").rank == 3
    assert root(unnamed=f"world_size: 16\n{OTHERS}\n{RAISED}").rank is None
    assert (
        root(unnamed=f"world_size: 8\nNCCL INFO comm 0x5 rank 1 nranks 16\n{OTHERS}\n{RAISED}").rank is None
    )
    assert root(algo_1=f"world_size: 8\n{OTHERS}", algo_2=f"{OTHERS}\n{RAISED}").rank is None


def test_the_table_of_ranks_has_them_too() -> None:
    lines = [Record(None, "algo-2", line) for line in OTHERS.split("\n")]
    found = diagnose(lines, job=AskedJob(processes_per_host=8))
    assert [(row.rank, row.host, row.step) for row in found.ranks] == [
        (rank, "algo-2", 5) for rank in range(8, 16)
    ]


def test_where_most_local_ranks_fail_alike_none_of_them_is_named() -> None:
    every = "\n".join(RAISED.replace("default3", f"default{local}") for local in range(4))
    cause = root(algo_2=every)
    assert (cause.rank, cause.finding.subject) == (None, None)


def test_a_host_that_the_line_speaks_of_is_not_the_one_whose_local_rank_prints_it() -> None:
    line = "[default3]:srun: error: algo-5: task 40: Out Of Memory"
    told = Record(None, "algo-5", "  global_ranks=[40, 41, 42, 43]")
    found = diagnose([told, Record(None, "algo-2", line)]).root_cause
    assert found is not None
    assert (found.finding.code, found.rank, found.host) == ("MEM002", None, "algo-5")
