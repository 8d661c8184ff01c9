"""What lines tell of single ranks: where they run, how they ended, and the table of all."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import CollectiveCall, Diagnosis, RankState, RootCause, table_of
from launcher.diagnosis.remedies import AskedJob
from launcher.diagnosis.signs.ranks import NOT_LATELY, add_silent_ranks
from tests.diagnosis.cases import records
from tests.diagnosis.stories import raised, root, story

RAISED = (
    "[default3]:Traceback (most recent call last):\n"
    '[default3]:  File "train.py", line 9, in <module>\n[default3]:    step()\n'
    "[default3]:KeyError: 'label'"
)
OTHERS = "\n".join(f"[default{local}]:step 5 loss 2.0" for local in range(8))


def root_of_hosts(job: AskedJob | None = None, **hosts: str) -> RootCause:
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
    cause = root_of_hosts(AskedJob(processes_per_host=8), algo_1=OTHERS, algo_2=f"{OTHERS}\n{RAISED}")
    assert (cause.rank, cause.host, cause.finding.subject) == (11, "algo-2", "rank 11")


def test_so_does_what_the_boot_of_the_first_host_says() -> None:
    boot = "slipway: algo-1, host 1 of 2: ml.p4d.24xlarge (8 GPUs), train.py by torchrun, 8 per host"
    assert root_of_hosts(algo_1=f"{boot}\n{OTHERS}", algo_2=RAISED).rank == 11


def test_without_either_it_is_a_local_rank() -> None:
    cause = root_of_hosts(algo_1=OTHERS, algo_2=RAISED)
    assert (cause.rank, cause.finding.subject) == (None, "local rank 3")


def test_what_has_no_number_or_more_ranks_than_the_plan_stays_local() -> None:
    assert root_of_hosts(AskedJob(processes_per_host=8), trainer=RAISED).rank is None
    assert root_of_hosts(AskedJob(processes_per_host=2), algo_2=RAISED).rank is None


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
    assert root_of_hosts(algo_2=f"{said}\n{RAISED}\n{OTHERS}").rank == 11


def test_hosts_that_meet_by_themselves_have_no_number_before() -> None:
    said = "torchrun --nnodes=2 --nproc-per-node=8 --rdzv-backend=c10d --node-rank=1 train.py"
    assert root_of_hosts(algo_2=f"{said}\n{RAISED}").rank is None


def test_of_a_host_of_which_two_lines_tell_otherwise_no_rank_is_named() -> None:
    assert root_of_hosts(algo_2=f"{RAISED}\n{table(9, 1)}\n{table(17, 1)}").rank is None


def test_where_lines_of_several_hosts_may_be_mixed_the_word_of_one_tells_nothing() -> None:
    assert root_of_hosts(unnamed=f"{RAISED}\n{table(9, 1)}").rank is None
    prefixed = "\n".join(f"[pod/train-1/pytorch] {line}" for line in f"{RAISED}\n{table(9, 1)}".split("\n"))
    assert root_of_hosts(unnamed=prefixed).rank == 11


def test_a_world_that_one_host_holds_has_no_other_ranks() -> None:
    assert root_of_hosts(unnamed=f"world_size: 8\n{OTHERS}\n{RAISED}").rank == 3
    assert root_of_hosts(unnamed=f"world_size: 16\n{OTHERS}\n{RAISED}").rank is None
    assert (
        root_of_hosts(unnamed=f"world_size: 8\nNCCL INFO comm 0x5 rank 1 nranks 16\n{OTHERS}\n{RAISED}").rank
        is None
    )
    assert root_of_hosts(algo_1=f"world_size: 8\n{OTHERS}", algo_2=f"{OTHERS}\n{RAISED}").rank is None


def test_the_table_of_ranks_has_them_too() -> None:
    lines = [Record(None, "algo-2", line) for line in OTHERS.split("\n")]
    found = diagnose(lines, job=AskedJob(processes_per_host=8))
    assert [(row.rank, row.host, row.step) for row in found.ranks] == [
        (rank, "algo-2", 5) for rank in range(8, 16)
    ]


def test_where_most_local_ranks_fail_alike_none_of_them_is_named() -> None:
    every = "\n".join(RAISED.replace("default3", f"default{local}") for local in range(4))
    cause = root_of_hosts(algo_2=every)
    assert (cause.rank, cause.finding.subject) == (None, None)


def test_a_host_that_the_line_speaks_of_is_not_the_one_whose_local_rank_prints_it() -> None:
    line = "[default3]:srun: error: algo-5: task 40: Out Of Memory"
    told = Record(None, "algo-5", "  global_ranks=[40, 41, 42, 43]")
    found = diagnose([told, Record(None, "algo-2", line)]).root_cause
    assert found is not None
    assert (found.finding.code, found.rank, found.host) == ("MEM002", None, "algo-5")


def test_a_rank_has_one_row_and_what_is_told_later_goes_first() -> None:
    first = RankState(3, host="algo-2", step=10, enqueued=CollectiveCall("ALLREDUCE", 5))
    later = RankState(3, step=11, exit="SIGKILL")
    assert table_of([first, RankState(0, step=9), later]) == (
        RankState(0, step=9),
        RankState(3, host="algo-2", step=11, enqueued=CollectiveCall("ALLREDUCE", 5), exit="SIGKILL"),
    )


def test_a_row_is_json() -> None:
    row = RankState(1, completed=CollectiveCall("BROADCAST", 2, "default_pg", 1024)).to_json()
    assert row["rank"] == 1
    assert row["completed"] == {"name": "BROADCAST", "sequence": 2, "group": "default_pg", "elements": 1024}
    assert row["exit"] is None


def test_ranks_of_which_nothing_was_read_stand_in_the_table_of_a_known_world() -> None:
    table = add_silent_ranks((RankState(1, step=9),), 3)
    assert [(row.rank, row.is_silent) for row in table] == [(0, True), (1, False), (2, True)]
    assert add_silent_ranks((), 3) == ()
    assert add_silent_ranks((RankState(1),), 10**9) == (RankState(1),)


def test_a_rank_that_may_have_printed_before_the_last_lines_is_not_called_silent() -> None:
    begun = ["world_size: 2", "[rank1]: building the model"]
    long = [*begun, *(f"[rank0]: step {step} loss 2" for step in range(300))]
    rows = diagnose(records("\n".join(long))).ranks
    assert [(row.rank, row.is_silent, row.state) for row in rows] == [
        (0, False, None),
        (1, False, NOT_LATELY),
    ]
    rows = diagnose(records("\n".join(long[:1] + long[2:60]))).ranks
    assert [(row.rank, row.is_silent) for row in rows] == [(0, False), (1, True)]


GONE = "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:398"


def ended(rank: int, local_rank: int, code: str, host: str = "localhost") -> str:
    """What torchrun says of the first of its ranks that ended."""
    return (
        f"torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) "
        f"local_rank: {local_rank} (pid: 7) of binary: python\n"
        "Root Cause (first observed failure):\n[0]:\n"
        f"  host      : {host}\n  rank      : {rank} (local_rank: {local_rank})\n  exitcode  : {code}"
    )


def of_two_hosts(code: str, name: str = "localhost") -> Diagnosis:
    """Rank 2 ended with a code; rank 3 beside it, and rank 0 on the other host, met a closed connection."""
    noticed = f"{raised(0, GONE, 'loss.backward()')}\n{ended(0, 0, '1', name)}"
    return story(algo_1=noticed, algo_2=f"{raised(3, GONE, 'loss.backward()')}\n{ended(2, 0, code, name)}")


@pytest.mark.parametrize("name", ["localhost", "ip-10-0-1-7.ec2.internal"])
@pytest.mark.parametrize(
    ("code", "mode"),
    [
        ("-9", "MEM002"), ("-11", "CODE004"), ("-7", "CODE004"), ("-6", "CODE004"), ("3", "CODE001"),
        ("7", "CODE001"),
    ],
)  # fmt: skip
def test_the_rank_that_ended_without_a_word_is_the_root(code: str, mode: str, name: str) -> None:
    assert root(of_two_hosts(code, name)) == (mode, 2)


STOOD = (
    "slipway: DATA001 ranks 1, 2, 3 on algo-1, algo-2 have not entered all_reduce #25 [17] (train.py:50), in "
    "which rank 0 waits; rank 1 is behind the script's end, process state R; rank 2 has ended; rank 3 has "
    "ended; no rank has made a step for 6 s (limit 5 s)"
)


@pytest.mark.parametrize(
    ("code", "found"),
    [("3", ("CODE001", 2)), ("-9", ("MEM002", 2)), ("0", ("DATA001", 1)), ("-15", ("DATA001", 1))],
)
def test_what_stood_still_because_a_rank_ended_is_not_the_root(code: str, found: tuple[str, int]) -> None:
    on_first = f"{raised(0, GONE, 'loss.backward()')}\n{STOOD}"
    told = story(algo_1=on_first, algo_2=f"{raised(3, GONE, 'loss.backward()')}\n{ended(2, 0, code)}")
    assert root(told) == found


def test_an_exit_code_of_one_may_have_followed() -> None:
    assert root(of_two_hosts("1")) not in [("CODE001", 2), ("NCCL006", 2)]


def test_a_rank_that_aborted_because_its_peer_was_gone_is_not_the_root() -> None:
    first = f"{raised(0, GONE, 'loss.backward()')}\n{ended(0, 0, '-6')}"
    found = story(algo_1=first, algo_2=f"{raised(3, GONE, 'loss.backward()')}\n{ended(2, 0, '3')}")
    assert root(found) == ("CODE001", 2)


def test_an_exception_elsewhere_goes_before_an_abort() -> None:
    first = f"{raised(0, 'KeyError: 3')}\n{ended(0, 0, '1')}"
    found = story(algo_1=first, algo_2=f"{raised(3, GONE, 'loss.backward()')}\n{ended(2, 0, '-6')}")
    assert root(found) == ("CODE001", 0)


def test_the_rank_that_receives_another_collectives_data_is_not_named_as_the_one_that_failed() -> None:
    received = (
        "[rank1]:terminate called after throwing an instance of 'gloo::EnforceNotMet'\n"
        "[rank1]:  what():  [enforce fail at gloo/transport/tcp/pair.cc:9] op.preamble.length <= op.nbytes. "
        "24 vs 12. Received data size doesn't match expected size."
    )
    found = story(
        algo_1=f"{raised(0, GONE, 'loss.backward()')}\n{received}\n{ended(1, 1, '-6')}",
        algo_2=f"{raised(3, GONE, 'loss.backward()')}\n{ended(3, 1, '1')}",
    )
    assert root(found) == ("NCCL004", None)


def test_what_the_boot_says_of_a_rank_counts_as_that_ranks_line() -> None:
    full = "OSError: [Errno 28] No space left on device"
    found = story(algo_1=f"slipway: DISK001 rank 3 on algo-2: {full}", algo_2=raised(3, full, "save()"))
    assert root(found) == ("DISK001", 3)


def test_a_rank_that_says_through_the_boot_that_it_waited_is_not_the_one_that_others_wait_for() -> None:
    said = "slipway: NCCL004 rank 0 on algo-1: ALLREDUCE #7 timed out (train.py:5)"
    assert root(story(algo_1=f"{said}\n{ended(0, 0, '1')}")) not in [("NCCL004", 0)]


def test_the_local_rank_that_torchrun_saw_end_is_the_rank_of_its_table() -> None:
    found = of_two_hosts("-11")
    assert found.root_cause is not None
    assert (found.root_cause.rank, found.root_cause.finding.subject) == (2, "rank 2")


def test_of_a_local_rank_that_two_lines_place_differently_no_rank_is_named() -> None:
    end = (
        "torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -11) local_rank: 0 (pid: 7)"
    )
    tables = "\n".join(f"  rank      : {rank} (local_rank: 0)\n  exitcode  : 1" for rank in (2, 6))
    found = story(algo_1=f"{end}\n{tables}").root_cause
    assert found is not None
    assert found.rank is None


def test_of_ranks_that_all_aborted_none_is_the_first_by_that() -> None:
    gone = f"{raised(0, GONE, 'loss.backward()')}\n{ended(0, 0, '-6')}"
    assert root(story(algo_1=gone, algo_2=ended(2, 0, "-6"))) not in [("CODE004", 2), ("CODE004", 0)]


def test_the_one_task_that_slurm_saw_killed_is_why_the_others_lost_it() -> None:
    killed = "srun: error: algo-2: task 2: Killed"
    lost = raised(0, GONE, "loss.backward()")
    assert root(story(algo_1=lost, algo_2=killed))[0] == "MEM002"
    assert root(story(algo_1=f"{lost}\nsrun: error: algo-1: task 0: Killed", algo_2=killed))[0] == "NCCL006"


def of_two_agents(first: str, second: str) -> Diagnosis:
    """Two agents' tables in one log: rank 0's stands first, rank 4's second, each with its time."""
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-08-20_11:{}\n"
        "  host      : gpu-{}\n  rank      : {} (local_rank: 0)\n  exitcode  : 1 (pid: 7)"
    )
    return story(f"{table.format(first, 1, 0)}\n{table.format(second, 2, 4)}")


def test_of_two_tables_in_one_log_the_earlier_failure_counts() -> None:
    assert root(of_two_agents("45:52", "45:01")) == ("CODE001", 4)
    assert root(of_two_agents("45:01", "45:52")) == ("CODE001", 0)


def test_tables_of_one_moment_count_in_the_order_in_which_they_stand() -> None:
    assert root(of_two_agents("45:04", "45:02")) == ("CODE001", 0)
    assert root(of_two_agents("45:0", "never")) == ("CODE001", 0)


def test_the_signal_in_the_table_is_the_cause_and_not_the_error_above_it() -> None:
    found = story(
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n"
        "Root Cause (first observed failure):\n[0]:\n"
        "  rank      : 10 (local_rank: 2)\n  exitcode  : -6 (pid: 201877)\n"
        "  traceback : Signal 6 (SIGABRT) received by PID 201877\n"
        "srun: error: algo-2: task 0: Exited with exit code 1"
    )
    assert root(found) == ("CODE004", 10)
