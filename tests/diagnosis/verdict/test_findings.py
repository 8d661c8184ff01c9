"""A rank is named where the table of ranks shows it, and nowhere else."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import LogStream
from tests.diagnosis.stories import raised, root, steps, story, timed_out


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
