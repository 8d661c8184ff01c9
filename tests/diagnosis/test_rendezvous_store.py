"""Ranks that wait at the store, or try to reach it, to the end of a log: how many came, and who did not where
the log shows it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.model import Verdict
from launcher.diagnosis.record import Record


def waits(rank: int, came: int, prefix: str = "[rank{}]: ") -> str:
    return prefix.format(rank) + (
        f"INFO Waiting in store based barrier to initialize process group for rank: {rank}, "
        f"key: store_based_barrier_key:1 (world_size=4, worker_count={came}, timeout=0:30:00)"
    )


def told(lines: Sequence[str]) -> tuple[Verdict, str]:
    found = diagnose([Record(None, "algo-1", line, "algo-1") for line in lines])
    return found.verdict, found.summary or ""


@pytest.mark.parametrize("prefix", ["[rank{}]: ", ""])
def test_the_rank_for_which_all_others_wait_is_named(prefix: str) -> None:
    verdict, summary = told([waits(rank, 3, prefix) for rank in (0, 1, 3)] * 3)
    assert verdict is Verdict.UNKNOWN
    assert "3 of 4 ranks wait at the store for their process group to be made; rank 2 did not come" in summary


def test_what_the_missing_rank_printed_last_changes_nothing() -> None:
    lines = [waits(rank, 3) for rank in (0, 1, 3)] + ["[rank2]: INFO loading the dataset"]
    assert "rank 2 did not come" in told(lines)[1]


def test_nobody_is_named_where_the_log_lacks_some_who_came() -> None:
    verdict, summary = told([waits(rank, 3) for rank in (0, 1)])
    assert verdict is Verdict.UNKNOWN
    assert "3 of 4 ranks wait" in summary
    assert "did not come" not in summary


@pytest.mark.parametrize(
    "lines",
    [
        [waits(rank, 4) for rank in range(4)],
        [
            *(waits(rank, 3) for rank in (0, 1, 3)),
            *(f"[rank{rank}]: INFO the model is built" for rank in range(4)),
        ],
        [*(waits(rank, 3, "") for rank in (0, 1, 3)), "INFO the model is built"],
    ],
    ids=["all came", "each went on", "somebody without a name went on"],
)
def test_of_ranks_that_came_or_went_on_nothing_is_said(lines: Sequence[str]) -> None:
    assert "wait at the store" not in told(lines)[1]


def refused(error: str) -> str:
    return f"[W socket.cpp:697] [c10d] The client socket has failed to connect to 10.0.0.5:7777 ({error})."


@pytest.mark.parametrize("error", ["errno: 110 - Connection timed out", "errno: 113 - No route to host"])
def test_a_store_that_nobody_reaches_to_the_end_is_the_root_cause(error: str) -> None:
    found = diagnose([Record(None, "algo-2", line, "algo-2") for line in [refused(error)] * 3])
    assert found.root_cause is not None
    assert found.root_cause.finding.code == "NCCL008"
    assert (
        f"could not reach the store at 10.0.0.5:7777: {error.removeprefix('errno: ')}"
        in found.root_cause.finding.message
    )


@pytest.mark.parametrize(
    "lines",
    [
        [refused("errno: 110 - Connection timed out"), "INFO the model is built"],
        [refused("errno: 111 - Connection refused")],
        [refused("errno: 97 - Address family not supported by protocol")],
    ],
    ids=["reached", "not up yet", "no IPv6"],
)
def test_a_store_that_is_reached_later_or_not_up_yet_is_no_root_cause(lines: Sequence[str]) -> None:
    assert diagnose([Record(None, "algo-2", line, "algo-2") for line in lines]).root_cause is None
