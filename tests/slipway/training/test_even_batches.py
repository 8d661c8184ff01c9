"""One number of batches on all ranks, whatever shares out the samples: three real ranks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import (
    DataLoader,
    DistributedSampler,
    IterableDataset,
    Sampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)

import slipway
from slipway.errors import SlipwayError
from slipway.training.even_batches import Epochs, agreed_count, uneven_counts_text
from tests.examples.forking import ForkedRanks
from tests.slipway.worlds import Outcome, World, run_world

RANKS = 3


def rank() -> int:
    return dist.get_rank()


def samples(count: int) -> TensorDataset:
    """Numbers by which samples can be told apart."""
    return TensorDataset(torch.arange(count))


def train(batches: Any) -> list[list[int]]:
    """An epoch of steps with a collective each, as a backward's; the samples of each step."""
    steps = []
    for (batch,) in batches:
        dist.all_reduce(torch.ones(1))
        steps.append(batch.tolist())
    return steps


class Shards(IterableDataset[tuple[torch.Tensor]]):
    """Shards of other lengths that are dealt out to ranks and workers, as WebDataset does."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = lengths

    def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
        worker = get_worker_info()
        readers = RANKS * (worker.num_workers if worker else 1)
        own = rank_of_reader() + RANKS * (worker.id if worker else 0)
        for shard, length in enumerate(self.lengths):
            if shard % readers == own:
                yield from ((torch.tensor(100 * shard + number),) for number in range(length))


def rank_of_reader() -> int:
    """In a worker too, which has no process group when it is spawned."""
    import os

    return int(os.environ["SM_CURRENT_HOST"].removeprefix("algo-")) - 1


class Failing(IterableDataset[tuple[torch.Tensor]]):
    """Rank 1 cannot read its third sample."""

    def __iter__(self) -> Iterator[tuple[torch.Tensor]]:
        for number in range(6):
            if rank() == 1 and number == 2:
                raise OSError("shard-00001.tar: unexpected end of data")
            yield (torch.tensor(number),)


class OwnBatches(Sampler[list[int]]):
    """Batches of another number on each rank, and an epoch of its own."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.told.append(epoch)

    def __len__(self) -> int:
        return 2 + rank()

    def __iter__(self) -> Iterator[list[int]]:
        return ([2 * batch, 2 * batch + 1] for batch in range(len(self)))


class Boasting(Sampler[int]):
    """Rank 2 says that it has 4 samples and has 2."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[int]:
        return iter(range(2 if rank() == 2 else 4))


def sized_pad(_: Path) -> Any:
    batches = slipway.even_batches(DataLoader(samples(4 - rank()), batch_size=1))
    return len(batches), train(batches), train(batches)


def sized_drop(_: Path) -> Any:
    batches = slipway.even_batches(DataLoader(samples(4 - rank()), batch_size=1), "drop")
    return len(batches), train(batches)


def distributed_sampler(_: Path) -> Any:
    data = samples(10)
    sampler: Any = DistributedSampler(data, shuffle=True)
    batches = slipway.even_batches(DataLoader(data, batch_size=2, sampler=sampler))
    ours = [train(batches), train(batches)]
    theirs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        theirs.append(train(DataLoader(data, batch_size=2, sampler=sampler)))
    sampler.set_epoch(7)
    train(batches)
    train(batches)
    return ours, theirs, sampler.epoch


def own_batch_sampler(_: Path) -> Any:
    sampler = OwnBatches()
    batches = slipway.even_batches(DataLoader(samples(10), batch_sampler=sampler))
    return train(batches), train(batches), sampler.told


def subset_random_sampler(_: Path) -> Any:
    loader = DataLoader(samples(9), sampler=SubsetRandomSampler(range(rank(), 9, 2)))
    return train(slipway.even_batches(loader))


def weighted_random_sampler(_: Path) -> Any:
    loader = DataLoader(samples(9), sampler=WeightedRandomSampler([1.0] * 9, 3 + rank()), batch_size=2)
    return train(slipway.even_batches(loader, "drop"))


def iterable_pad(_: Path) -> Any:
    batches = slipway.even_batches(DataLoader(Shards([3, 1, 2, 1]), batch_size=1))
    return train(batches), train(batches)


def iterable_drop(_: Path) -> Any:
    return train(slipway.even_batches(DataLoader(Shards([3, 1, 2, 1]), batch_size=1), mode="drop"))


def iterable_with_workers(_: Path) -> Any:
    loader = DataLoader(Shards([3, 1, 2, 1, 1, 1, 2]), batch_size=1, num_workers=2)
    return train(slipway.even_batches(loader))


def plain_generator(_: Path) -> Any:
    return train(slipway.even_batches(((torch.tensor(n),) for n in range(3 + rank())), "drop"))


def left_early(_: Path) -> Any:
    batches = slipway.even_batches(DataLoader(Shards([4, 3, 2]), batch_size=1))
    for _batch in batches:
        dist.all_reduce(torch.ones(1))
        break
    return train(batches)


def nothing_on_one_rank(_: Path) -> Any:
    return train(slipway.even_batches(DataLoader(Shards([3, 1]), batch_size=1)))


def nothing_counted_on_one_rank(_: Path) -> Any:
    return train(slipway.even_batches(DataLoader(samples(2 - rank()), batch_size=1), "drop"))


def nothing_anywhere(_: Path) -> Any:
    return train(slipway.even_batches(DataLoader(Shards([]), batch_size=1)))


def failing_loader(_: Path) -> Any:
    steps = []
    for (batch,) in slipway.even_batches(DataLoader(Failing(), batch_size=1)):
        dist.all_reduce(torch.ones(1))
        steps.append(batch.tolist())
        print(f"step {len(steps)}", file=__import__("sys").stderr)
    return steps


def boasting_sampler(_: Path) -> Any:
    """No collective in the steps, as the ranks do not part at the same one."""
    loader = DataLoader(samples(4), sampler=Boasting())
    return sum(1 for _ in slipway.even_batches(loader, "drop"))


def joined(_: Path) -> Any:
    model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(samples(4 - rank()), batch_size=1)
    steps = 0
    for (batch,) in slipway.even_batches(loader, mode="join", model=model):
        optimizer.zero_grad()
        model(batch.float().reshape(1, 1)).sum().backward()
        optimizer.step()
        steps += 1
    return steps, model.module.weight.item()


CASES = [
    sized_pad, sized_drop, distributed_sampler, own_batch_sampler, subset_random_sampler,
    weighted_random_sampler, iterable_pad, iterable_drop, iterable_with_workers, plain_generator, left_early,
    nothing_on_one_rank, nothing_counted_on_one_rank, nothing_anywhere, failing_loader, boasting_sampler,
    joined,
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, forked_ranks: ForkedRanks) -> World:
    return run_world(forked_ranks, CASES, RANKS, tmp_path_factory.mktemp("world"))


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.error for outcome in outcomes] == [None] * RANKS
    return [outcome.value for outcome in outcomes]


def test_ranks_with_fewer_batches_begin_their_samples_again(world: World) -> None:
    outcomes = world["sized_pad"]
    for length, first, second in values(outcomes):
        assert length == len(first) == len(second) == 4
    assert values(outcomes)[2][1] == [[0], [1], [0], [1]]
    assert outcomes[0].said == (
        "slipway: DATA001 ranks have different numbers of batches (4 on rank 0, 3 on rank 1, 2 on rank 2): "
        "every rank gets 4, those with fewer repeat samples of their own\n"
    )
    assert outcomes[1].said == outcomes[2].said == ""


def test_dropping_cuts_every_rank_to_the_fewest(world: World) -> None:
    assert values(world["sized_drop"]) == [[2, [[0], [1]]]] * RANKS
    assert "every rank gets 2, the rest is dropped" in world["sized_drop"][0].said


def test_a_distributed_sampler_is_left_as_it_is_but_for_its_epoch(world: World) -> None:
    for ours, theirs, epoch in values(world["distributed_sampler"]):
        assert ours == theirs
        assert ours[0] != ours[1]
        assert epoch == 8, "an epoch that the script set is gone on from"


def test_a_batch_sampler_of_ones_own_is_told_the_epoch_and_padded(world: World) -> None:
    for first, second, told in values(world["own_batch_sampler"]):
        assert len(first) == len(second) == 4
        assert told == [0, 1]


def test_subset_and_weighted_samplers_come_to_one_number(world: World) -> None:
    # Ranks 0 to 2 have 5, 4 and 4 of the subset, and 2, 2 and 3 batches by weight.
    assert [len(steps) for steps in values(world["subset_random_sampler"])] == [5, 5, 5]
    assert [len(steps) for steps in values(world["weighted_random_sampler"])] == [2, 2, 2]


def test_an_iterable_dataset_is_padded_by_looking_one_batch_ahead(world: World) -> None:
    first, second, third = values(world["iterable_pad"])
    assert first[0] == first[1] == [[0], [1], [2], [300]]
    assert second[0] == [[100], [100], [100], [100]]
    assert third[0] == [[200], [201], [200], [201]]
    assert "(4 on rank 0, 2 on rank 2, 1 on rank 1)" in world["iterable_pad"][0].said
    assert world["iterable_pad"][0].said.count("DATA001") == 1, "said once, not in every epoch"


def test_an_iterable_dataset_is_cut_where_the_first_rank_ends(world: World) -> None:
    assert values(world["iterable_drop"]) == [[[0]], [[100]], [[200]]]
    assert "2 or more on ranks 0, 2, 1 on rank 1" in world["iterable_drop"][0].said


def test_an_iterable_dataset_with_workers_is_padded(world: World) -> None:
    # Shards 0, 3 and 6 are rank 0's (6 samples), 1 and 4 rank 1's, 2 and 5 rank 2's.
    steps = values(world["iterable_with_workers"])
    assert [len(own) for own in steps] == [6, 6, 6]
    assert {sample for own in steps[1] for sample in own} == {100, 400}


def test_a_generator_can_be_cut(world: World) -> None:
    assert [len(steps) for steps in values(world["plain_generator"])] == [3, 3, 3]


def test_an_epoch_that_was_left_does_not_disturb_the_next(world: World) -> None:
    assert [len(steps) for steps in values(world["left_early"])] == [4, 4, 4]


@pytest.mark.parametrize("case", ["nothing_on_one_rank", "nothing_counted_on_one_rank"])
def test_a_rank_without_any_batch_is_refused_on_all(world: World, case: str) -> None:
    for outcome in world[case]:
        assert outcome.error is not None
        assert outcome.error.startswith("SlipwayError: DATA001 rank 2 got no batch at all while others did")


def test_no_batch_on_any_rank_is_an_empty_epoch(world: World) -> None:
    assert values(world["nothing_anywhere"]) == [[], [], []]


def test_a_rank_whose_loader_raises_tells_the_others(world: World) -> None:
    first, second, third = world["failing_loader"]
    assert second.error == "OSError: shard-00001.tar: unexpected end of data"
    for outcome in (first, third):
        assert outcome.error == (
            "SlipwayError: NCCL006 rank 1 could not fetch the next batch, so this rank ends as well. Rank 1 "
            "raised OSError: shard-00001.tar: unexpected end of data"
        )
        assert outcome.said == second.said == "step 1\nstep 2\n", "the batches before it were trained on"


def test_a_loader_that_has_fewer_batches_than_it_says_is_refused(world: World) -> None:
    first, second, third = world["boasting_sampler"]
    assert first.value == second.value == 4
    assert third.error is not None
    assert third.error.startswith(
        "SlipwayError: DATA001 the loader said that it has 4 batches and gave 2, so the other ranks would"
    )


def test_ranks_may_leave_where_the_model_can_be_joined(world: World) -> None:
    steps = values(world["joined"])
    assert [count for count, _ in steps] == [4, 3, 2]
    assert len({weight for _, weight in steps}) == 1


def test_without_a_process_group_the_batches_are_the_loaders() -> None:
    data = samples(5)
    batches = slipway.even_batches(DataLoader(data, batch_size=2))
    assert [batch.tolist() for (batch,) in batches] == [[0, 1], [2, 3], [4]]
    assert len(batches) == 3
    assert batches.dataset is data


def test_a_generator_cannot_be_padded() -> None:
    with pytest.raises(TypeError, match=r'generator cannot be begun again.*mode="drop"'):
        slipway.even_batches(number for number in range(3))


def test_only_distributed_data_parallel_can_be_joined() -> None:
    loader = DataLoader(samples(2))
    with pytest.raises(TypeError, match=r"Linear cannot be joined.*FSDP"):
        slipway.even_batches(loader, mode="join", model=nn.Linear(1, 1))
    with pytest.raises(TypeError, match="needs the model"):
        slipway.even_batches(loader, mode="join")
    with pytest.raises(ValueError, match="mode='even' is not one of pad, drop, join"):
        slipway.even_batches(loader, mode="even")
    with pytest.raises(TypeError, match='only for mode="join"'):
        slipway.even_batches(loader, model=nn.Linear(1, 1))


COUNTS = st.lists(st.integers(1, 1000), min_size=1, max_size=64)


@given(COUNTS)
def test_padding_gives_the_most_and_dropping_the_fewest(counts: list[int]) -> None:
    assert agreed_count("pad", counts) == sorted(counts)[-1]
    assert agreed_count("drop", counts) == sorted(counts)[0]


@given(COUNTS, st.sampled_from(["pad", "drop"]), st.booleans())
def test_something_is_said_where_and_only_where_ranks_differ(
    counts: list[int], mode: str, at_least: bool
) -> None:
    line = uneven_counts_text(mode, counts, at_least=at_least)
    assert (line is None) == (len(set(counts)) == 1)
    assert line is None or (line.startswith("DATA001 ") and len(line) < 1000 and "\n" not in line)


@pytest.mark.parametrize("mode", ["pad", "drop"])
def test_ranks_without_any_batch_are_refused_unless_all_are(mode: str) -> None:
    with pytest.raises(SlipwayError, match=r"^DATA001 ranks 0, 2 got no batch at all"):
        agreed_count(mode, [0, 3, 0])
    assert agreed_count(mode, [0, 0]) == 0


def test_many_ranks_are_not_all_listed() -> None:
    line = uneven_counts_text("pad", list(range(1, 65)))
    assert line is not None
    assert "64 on rank 63, 63 on rank 62" in line
    assert "…" in line


class Listener:
    """Something with set_epoch, as a sampler; it counts how often it was told."""

    def __init__(self) -> None:
        self.epoch = 0
        self.told: list[int] = []

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.told.append(epoch)


def epochs_of(loader: Any, count: int) -> list[int]:
    epochs = Epochs()
    return [epochs.begin(loader) for _ in range(count)]


def test_the_sampler_within_a_batch_sampler_and_the_dataset_are_told_too() -> None:
    sampler, inner, dataset = Listener(), Listener(), Listener()
    loader = SimpleNamespace(sampler=sampler, batch_sampler=SimpleNamespace(sampler=inner), dataset=dataset)
    assert epochs_of(loader, 3) == [0, 1, 2]
    assert sampler.told == inner.told == dataset.told == [1, 2]


def test_one_that_is_found_twice_is_told_once() -> None:
    sampler = Listener()
    epochs_of(SimpleNamespace(sampler=sampler, batch_sampler=SimpleNamespace(sampler=sampler)), 2)
    assert sampler.told == [1]


def test_an_epoch_that_the_script_set_counts() -> None:
    sampler, epochs = Listener(), Epochs()
    loader = SimpleNamespace(sampler=sampler)
    sampler.epoch = 5
    assert [epochs.begin(loader), epochs.begin(loader)] == [5, 6]
    sampler.epoch = 2
    assert [epochs.begin(loader), epochs.begin(loader)] == [2, 3]


def test_what_does_not_show_its_epoch_is_told_all() -> None:
    told: list[int] = []
    epochs_of(SimpleNamespace(dataset=SimpleNamespace(set_epoch=told.append)), 2)
    assert told == [0, 1]


def test_a_plain_list_has_no_listeners() -> None:
    assert epochs_of([1, 2], 2) == [0, 1]
