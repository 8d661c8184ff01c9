"""The table of ranks: one row for each, filled by every kind of evidence."""

from __future__ import annotations

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.ranks import NOT_LATELY, CollectiveCall, RankState, table_of, with_the_silent
from tests.diagnosis.cases import records


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
    table = with_the_silent((RankState(1, step=9),), 3)
    assert [(row.rank, row.is_silent) for row in table] == [(0, True), (1, False), (2, True)]
    assert with_the_silent((), 3) == ()
    assert with_the_silent((RankState(1),), 10**9) == (RankState(1),)


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
