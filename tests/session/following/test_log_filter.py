"""Which lines are shown, and what time a person means."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from launcher.backends.interface import LogLine
from launcher.failure_modes.refusal import Refusal
from launcher.session.following.log_filter import LogFilter, compile_pattern, parse_since, rank_of

NOW = datetime(2026, 8, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("host", "text", "processes", "rank"),
    [
        ("algo-2", "[rank13]: loss=1", 8, 13),
        ("algo-2", "[rank13]:[E1016 03:31:38.9 ProcessGroupNCCL.cpp:607] [Rank 4] x", None, 13),
        ("algo-2", "[1,13]<stdout>: loss=1", 8, 13),
        ("algo-2", "[1,mpirank:13,algo-2]<stderr>:boom", 8, 13),
        ("algo-2", "[default5]:loss=1", 8, 13),
        ("algo-2", "[default5]:loss=1", None, None),
        ("algo-2", "[Rank 3] Watchdog caught collective operation timeout", None, 3),
        ("algo-3", "plain", 1, 2),
        ("algo-3", "plain", 8, None),
        ("algo-3", "reached [rank3]: in the middle", 8, None),
    ],
)
def test_the_rank_of_a_line(host: str, text: str, processes: int | None, rank: int | None) -> None:
    assert rank_of(LogLine(0, host, text), processes) == rank


def test_all_conditions_hold_together() -> None:
    lines = [
        LogLine(10, "algo-1", "[rank0]: loss=1"),
        LogLine(20, "algo-1", "[rank1]: loss=1"),
        LogLine(30, "algo-2", "[rank2]: loss=1"),
        LogLine(40, "algo-1", "[rank1]: saved"),
    ]
    chosen = LogFilter(hosts=frozenset({"algo-1"}), rank=1, pattern=compile_pattern("loss="), since=15)
    assert chosen.keep(lines) == [lines[1]]
    assert LogFilter().keep(lines) == lines


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10m", NOW - timedelta(minutes=10)),
        ("7d", NOW - timedelta(days=7)),
        ("2026-08-20T11:30", datetime(2026, 8, 20, 11, 30, tzinfo=UTC)),
        ("2026-08-20T11:30+02:00", datetime(2026, 8, 20, 9, 30, tzinfo=UTC)),
    ],
)
def test_a_span_or_a_time_is_understood(text: str, meant: datetime) -> None:
    assert parse_since(text, NOW) == meant


def test_neither_span_nor_time_is_refused() -> None:
    with pytest.raises(Refusal, match="yesterday"):
        parse_since("yesterday", NOW)


def test_a_broken_regular_expression_is_refused() -> None:
    with pytest.raises(Refusal, match="not a regular expression"):
        compile_pattern("loss=(")
