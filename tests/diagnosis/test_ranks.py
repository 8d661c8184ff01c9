"""The table of ranks: one row for each, filled by every kind of evidence."""

from __future__ import annotations

from launcher.diagnosis.ranks import Collective, RankState, table_of


def test_a_rank_has_one_row_and_what_is_told_later_goes_first() -> None:
    first = RankState(3, host="algo-2", step=10, enqueued=Collective("ALLREDUCE", 5))
    later = RankState(3, step=11, exit="SIGKILL")
    assert table_of([first, RankState(0, step=9), later]) == (
        RankState(0, step=9),
        RankState(3, host="algo-2", step=11, enqueued=Collective("ALLREDUCE", 5), exit="SIGKILL"),
    )


def test_a_row_is_json() -> None:
    row = RankState(1, completed=Collective("BROADCAST", 2, "default_pg", 1024)).to_json()
    assert row["rank"] == 1
    assert row["completed"] == {"name": "BROADCAST", "sequence": 2, "group": "default_pg", "elements": 1024}
    assert row["exit"] is None
