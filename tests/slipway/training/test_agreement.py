"""Ranks that meet over a store: one decision for all, and a name for who does not come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from torch.distributed import HashStore

from slipway.errors import CheckpointError
from slipway.training.agreement import RollCall

PATIENT = 60.0


def gathered(
    world_size: int, action: Callable[[RollCall], Any], come: range | None = None, patience: float = PATIENT
) -> list[Any]:
    """What each rank got, or the error that it raised, all at the same time."""
    store = HashStore()

    def rank(number: int) -> Any:
        try:
            return action(RollCall(store, number, world_size, "test", patience))
        except CheckpointError as error:
            return str(error)

    with ThreadPoolExecutor(world_size) as threads:
        return list(threads.map(rank, come or range(world_size)))


def test_all_ranks_get_what_rank_0_decides_over_all_values() -> None:
    assert gathered(3, lambda call: call.meet("save", call.rank, sum)) == [3, 3, 3]


def test_each_rank_can_get_an_answer_of_its_own() -> None:
    doubled = gathered(
        3, lambda call: call.meet("save", call.rank, lambda values: [2 * one for one in values], each=True)
    )
    assert doubled == [0, 2, 4]


def test_ranks_meet_again_and_again() -> None:
    assert (
        gathered(2, lambda call: [call.meet("save", turn, max) for turn in range(20)])
        == [list(range(20))] * 2
    )


def test_the_store_does_not_grow_with_the_meetings() -> None:
    store = HashStore()

    def rank(number: int) -> int:
        call = RollCall(store, number, 2, "test", PATIENT)
        counts = []
        for _ in range(6):
            call.meet("save", 0, max)
            call.meet("save", 0, lambda values: [0, 0], each=True)
            call.meet("save", 0, lambda values: counts.append(store.num_keys()))
        return max(counts[1:]) - counts[0] if counts else 0

    with ThreadPoolExecutor(2) as threads:
        assert max(threads.map(rank, range(2))) <= 1


def test_what_rank_0_refuses_is_raised_by_all() -> None:
    def refuse(values: list[int]) -> None:
        raise CheckpointError("DISK001", "no room")

    assert gathered(2, lambda call: call.meet("save", 0, refuse)) == ["DISK001 no room"] * 2


def test_a_decision_that_fails_is_no_silence() -> None:
    said = gathered(2, lambda call: call.meet("save(step=1)", 0, lambda values: 1 / 0))
    assert said == ["CKPT004 save(step=1) failed on rank 0: ZeroDivisionError('division by zero')"] * 2


def test_a_rank_that_does_not_come_is_named_by_those_who_did() -> None:
    said = gathered(4, lambda call: call.meet("save(step=9)", 0, max), range(3), patience=0.2)
    expected = (
        "CKPT003 rank 3 did not come to save(step=9) in 0.2 s, ranks 0, 1, 2 did, and would have waited"
    )
    assert len(said) == 3 and all(one.startswith(expected) for one in said)


def test_rank_0_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipway.training.agreement._GRACE", 0.1)
    said = gathered(3, lambda call: call.meet("save(step=9)", 0, max), range(1, 3), patience=0.1)
    assert all(one.startswith("CKPT003 rank 0 did not come to save(step=9)") for one in said)


def test_one_rank_alone_needs_no_store() -> None:
    assert RollCall(None, 0, 1, "test").meet("save", 5, sum) == 5
