"""The order of samples: one for all numbers of ranks, continued where training stood."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import DataLoader

import slipway
from slipway.training import data_order as module

DATA = list(range(50))


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda rank, world_size: monkeypatch.setattr(
        module, "rank_and_world_size", lambda: (rank, world_size)
    )


def steps(
    as_rank: Any, world_size: int, position: dict[str, Any] | None, wanted: int, **options: Any
) -> tuple[list[set[int]], dict[str, Any]]:
    """The global batches of so many steps, over the ranks, and the position afterwards."""
    taken: list[set[int]] = [set() for _ in range(wanted)]
    after: dict[str, Any] = {}
    for rank in range(world_size):
        as_rank(rank, world_size)
        sampler = slipway.GlobalSampler(DATA, 12, seed=3, **options)
        if position:
            sampler.check(position)
            sampler.restore(position)
        step = 0
        while step < wanted:
            for batch in sampler.follow(DataLoader(DATA, batch_sampler=sampler)):
                assert len(batch) == 12 // world_size
                taken[step] |= {int(one) for one in batch}
                step += 1
                if step == wanted:
                    break
        after = sampler.position()
    assert all(len(one) == 12 for one in taken), "a sample was taken twice or left out"
    return taken, after


@pytest.mark.parametrize(("first", "then"), [(2, 3), (4, 1), (1, 6), (3, 2)])
@pytest.mark.parametrize("stop", [1, 4, 6])
def test_another_number_of_ranks_continues_with_the_samples_of_an_unbroken_run(
    as_rank: Any, first: int, then: int, stop: int
) -> None:
    unbroken, _ = steps(as_rank, 2, None, 10)
    before, position = steps(as_rank, first, None, stop)
    after, _ = steps(as_rank, then, position, 10 - stop)
    assert before + after == unbroken


def test_each_epoch_has_an_order_of_its_own(as_rank: Any) -> None:
    taken, position = steps(as_rank, 1, None, 8)
    assert taken[:4] != taken[4:] and (position["epoch"], position["samples"]) == (1, 48)


def test_after_the_last_batch_of_an_epoch_comes_the_next_one() -> None:
    sampler = slipway.GlobalSampler(DATA, 10)
    passes = 0
    while sampler.epoch < 3:
        passes += len(list(sampler.follow(DataLoader(DATA, batch_sampler=sampler))))
    assert passes == 15


def test_without_shuffle_the_samples_come_in_their_order(as_rank: Any) -> None:
    taken, _ = steps(as_rank, 2, None, 2, shuffle=False)
    assert taken == [set(range(12)), set(range(12, 24))]


def test_a_loader_that_reads_ahead_does_not_move_the_position() -> None:
    sampler = slipway.GlobalSampler(DATA, 10)
    loader = DataLoader(DATA, batch_sampler=sampler, num_workers=1, prefetch_factor=3)
    for _ in sampler.follow(loader):
        break
    assert sampler.position()["samples"] == 10


def test_a_position_that_nobody_followed_is_refused() -> None:
    sampler = slipway.GlobalSampler(DATA, 10)
    next(iter(sampler))
    with pytest.raises(RuntimeError, match=r"sampler.follow\(loader\)"):
        sampler.position()


def test_an_epoch_that_ended_is_followed_by_the_next_one() -> None:
    sampler = slipway.GlobalSampler(DATA, 10)
    position = {**sampler.position(), "samples": 50}
    sampler.check(position)
    sampler.restore(position)
    assert (sampler.epoch, sampler.samples, len(sampler)) == (1, 0, 5)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"samples": 51}, "samples is 51, not a number from 0 to 50"),
        ({"samples": -1}, "samples is -1"),
        ({"samples": True}, "samples is True"),
        ({"epoch": "x" * 500}, "epoch is 'x"),
        ({"length": 49}, "its length is 49, the sampler's 50"),
        ({"seed": 1}, "its seed is 1, the sampler's 0"),
        ({"shuffle": 1}, "its shuffle is 1, the sampler's True"),
        ({"epoch": None}, "epoch is None"),
    ],
)  # fmt: skip
def test_a_position_beyond_the_data_or_of_others_is_refused(change: dict[str, Any], said: str) -> None:
    sampler = slipway.GlobalSampler(DATA, 10)
    with pytest.raises(slipway.CheckpointError, match=f"^CKPT009 .*{said}") as caught:
        sampler.check({**sampler.position(), **change})
    assert len(str(caught.value)) < 400


def test_a_checkpoint_without_a_position_is_refused() -> None:
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT009 .*no position.*sampler="):
        slipway.GlobalSampler(DATA, 10).check(None)


@pytest.mark.parametrize(
    ("batch", "world_size", "said"),
    [(51, 1, "cannot be taken from 50"), (0, 1, "cannot be taken"), (10, 4, "not a multiple of 4 ranks")],
)
def test_a_global_batch_that_cannot_be_shared_is_refused(
    as_rank: Any, batch: int, world_size: int, said: str
) -> None:
    as_rank(0, world_size)
    with pytest.raises(ValueError, match=said):
        slipway.GlobalSampler(DATA, batch)
