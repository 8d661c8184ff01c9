"""`launch diagnose --ranks`: the odd ones first, and a large world within a screen."""

from __future__ import annotations

import io

from rich.console import Console

from launcher.cli.ranks_view import ranks_table
from launcher.diagnosis.ranks import CollectiveCall, RankState


def drawn(*rows: RankState) -> list[str]:
    terminal = Console(file=io.StringIO(), width=120)
    terminal.print(ranks_table(rows))
    return terminal.file.getvalue().splitlines()


def test_the_one_that_differs_comes_first_and_the_rest_is_one_line() -> None:
    call = CollectiveCall("ALLREDUCE", 7)
    waiting = [RankState(rank, "algo-1", step=9, enqueued=call) for rank in range(512)]
    waiting[5] = RankState(5, "algo-1", step=8, enqueued=CollectiveCall("ALLREDUCE", 6), exit="SIGKILL")
    heading, odd, rest = drawn(*waiting)
    assert heading.split()[:2] == ["RANKS", "HOST"]
    assert odd.split() == ["5", "algo-1", "8", "ALLREDUCE", "#6", "SIGKILL"]
    assert rest.startswith("0 to 4, 6 to 511")


def test_a_large_world_fits_a_screen_and_says_how_many_are_left_out() -> None:
    lines = drawn(*(RankState(rank, step=rank) for rank in range(512)))
    assert len(lines) <= 24
    assert lines[-1].strip() == "492 more"


def test_a_silent_rank_is_said_to_have_never_reported() -> None:
    assert drawn(RankState(3), RankState(4, last_output=0.0))[1].split() == ["3", "never", "reported"]


def test_what_a_log_says_reaches_no_terminal_as_an_escape() -> None:
    assert "\x1b" not in "".join(drawn(RankState(3, frame="\x1b]0;title\x07train.py:3")))
