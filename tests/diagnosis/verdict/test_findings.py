"""A rank is named where the table of ranks shows it, and nowhere else."""

from __future__ import annotations

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import LogStream
from tests.diagnosis.stories import raised, root, steps, story, timed_out


def all_but(*others: int) -> str:
    return "\n".join(timed_out(rank, 96120) for rank in range(8) if rank not in others)


def test_the_rank_that_is_behind_is_named_and_not_the_first_that_complained() -> None:
    found = story(all_but(7), timed_out(7, 64088))
    assert root(found) == ("NCCL004", 7)
    assert found.root_cause.finding.subject == "rank 7"
    assert "rank 7 at 64088, while ranks 0 to 6 wait in number 96120" in found.root_cause.finding.message


def test_the_rank_that_never_reported_is_named() -> None:
    found = story("world_size: 8", all_but(5))
    assert root(found) == ("NCCL004", 5)
    assert "rank 5 of 8 has not reported" in found.root_cause.finding.message


def test_nobody_is_named_where_all_wait_in_the_same() -> None:
    found = story("world_size: 8", all_but())
    assert root(found) == ("NCCL004", None)
    assert found.root_cause.finding.subject is None


def test_nobody_is_named_where_most_have_not_reported() -> None:
    assert root(story("world_size: 8", timed_out(0, 7), timed_out(1, 7))) == ("NCCL004", None)


def test_nobody_is_called_missing_where_the_size_of_the_world_is_not_known() -> None:
    assert root(story(all_but(5))) == ("NCCL004", None)


def test_the_few_in_another_collective_are_named() -> None:
    others = "\n".join(timed_out(rank, 7) for rank in (0, 1, 2))
    found = story(others, timed_out(3, 7, "BROADCAST"))
    assert root(found) == ("NCCL004", 3)
    assert "ranks 0 to 2 in ALLREDUCE 7, rank 3 in BROADCAST 7" in found.root_cause.finding.message


def test_the_last_collective_that_a_rank_called_tells_that_it_is_behind() -> None:
    says = (
        "[rank{0}]:[E ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank {0}] failure detected by "
        "watchdog at work sequence id: {1} PG status: last enqueued work: {1}, last completed work: {2}"
    )
    found = story(*(says.format(rank, 1580 - (rank == 2), 1579 - (rank == 2)) for rank in range(4)))
    assert root(found) == ("NCCL004", 2)
    assert [(row.rank, row.enqueued.sequence, row.completed.sequence) for row in found.ranks] == [
        (0, 1580, 1579),
        (1, 1580, 1579),
        (2, 1579, 1578),
        (3, 1580, 1579),
    ]


def test_the_rank_in_a_group_is_not_taken_for_the_global_one() -> None:
    text = timed_out(1, 7).removeprefix("[rank1]:").replace("[Rank 1]", "[PG ID 3 PG GUID 5(tp) Rank 1]")
    found = story(text)
    assert root(found) == ("NCCL004", None)
    assert found.ranks == ()


def test_the_table_has_the_last_step_of_each_rank_and_how_its_process_ended() -> None:
    table = (
        "Root Cause (first observed failure):\n[0]:\n  rank      : 1 (local_rank: 1)\n"
        "  exitcode  : -11 (pid: 7)"
    )
    lines = [f"[rank{rank}]: {line}" for line in steps(1, 5).split("\n") for rank in (0, 1)]
    found = story(*lines, table)
    assert [(row.rank, row.host, row.step, row.exit) for row in found.ranks] == [
        (0, "algo-1", 5, None),
        (1, "algo-1", 5, "SIGSEGV"),
    ]


def test_what_a_file_of_a_local_rank_says_is_of_the_rank_that_its_lines_name() -> None:
    said = raised(5, "KeyError: 'label'").replace("[rank5]: ", "")
    lines = [said, "[rank5]:[W515 07:06:42 x.cpp:1] Warning: leaving"]
    stream = LogStream("attempt_0/1/stderr.log", "algo-2", None, 1, iter(["\n".join(lines).encode()]))
    cause = diagnose([], streams=[stream]).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank, cause.host) == ("CODE001", 5, "algo-2")


def test_torchruns_table_names_the_rank_of_a_file_in_its_folder() -> None:
    said = raised(5, "KeyError: 'label'").replace("[rank5]: ", "")
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-08-20_11:30:44\n"
        "  host      : gpu-2.cluster\n  rank      : 13 (local_rank: 5)\n  exitcode  : 1 (pid: 7)"
    )
    name = "gpu-2/none_x7/attempt_0/5/stderr.log"
    streams = [
        LogStream(name, name, None, 5, iter([said.encode()])),
        LogStream("gpu-2/agent.log", "gpu-2/agent.log", None, None, iter([table.encode()])),
    ]
    cause = diagnose([], streams=streams).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("CODE001", 13)


def test_what_all_ranks_read_alike_is_nobodys_fault() -> None:
    keys = (
        "RuntimeError: Error(s) in loading state_dict for Net:",
        '[rank3]: \tMissing key(s) in state_dict: "_orig_mod.fc.weight".',
        '[rank3]: \tUnexpected key(s) in state_dict: "fc.weight".',
    )
    cause = story(algo_1=raised(3, "\n".join(keys))).root_cause
    assert cause is not None
    assert (cause.finding.code, cause.rank) == ("CKPT005", None)


def test_of_the_tables_of_several_hosts_in_one_file_that_with_the_same_exit_code_counts() -> None:
    table = (
        "Root Cause (first observed failure):\n[0]:\n  host      : {}\n  rank      : {} (local_rank: 0)\n"
        "  exitcode  : {} (pid: 7)"
    )
    ended = "E0820 api.py:882] failed (exitcode: -9) local_rank: 0 (pid: 7) of binary: python"
    found = story(ended, table.format("gpu-2", 4, -9), table.format("gpu-1", 0, 1))
    assert root(found) == ("MEM002", 4)


def of_pod(number: int, exit_code: int, *texts: str) -> str:
    """The last words of a host of two ranks, of which torchrun says who failed first."""
    table = (
        "Root Cause (first observed failure):",
        "[0]:",
        "  time      : 2026-08-20_11:40:05",
        f"  host      : trainer-{number}",
        f"  rank      : {2 * number} (local_rank: 0)",
        f"  exitcode  : {exit_code} (pid: 150)",
    )
    return "\n".join(f"[pod/trainer-{number}/pytorch] {text}" for text in (*texts, *table))


@pytest.mark.parametrize("hosts", [2, 4])
def test_what_all_hosts_lack_alike_is_not_of_the_rank_that_one_table_names(hosts: int) -> None:
    missing = "ModuleNotFoundError: No module named 'einops'"
    found = story(*(of_pod(number, 1, missing) for number in range(hosts)))
    assert root(found) == ("CODE005", None)
    assert found.root_cause.finding.subject is None
    assert f"{hosts} of {hosts} hosts failed so" in found.root_cause.finding.message


def test_what_one_host_of_many_lacks_is_of_the_rank_that_its_table_names() -> None:
    missing = "ModuleNotFoundError: No module named 'einops'"
    killed = "RuntimeError: [/pytorch/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    lines = (of_pod(number, 1, missing if number == 2 else killed) for number in range(4))
    assert root(story(*lines)) == ("CODE005", 4)
