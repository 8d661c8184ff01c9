"""One order of data on all ranks: of files, and of samples."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import slipway
from slipway.training import data_order as module
from slipway.training.data_order import (
    channel_folder,
    difference,
    files_in,
    fingerprint,
    is_sharded_channel,
    odd_ones,
)
from tests.examples.forking import ForkedRanks
from tests.slipway.worlds import Outcome, World, run_world

RANKS = 3


def disk(folder: Path, files: dict[str, str]) -> Path:
    """This host's own channel below a folder that all share."""
    channel = folder / os.environ["SM_CURRENT_HOST"]
    for name, text in files.items():
        file = channel / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    os.environ["SM_CHANNEL_TRAIN"] = str(channel)
    return channel


def shards(count: int) -> dict[str, str]:
    return {f"part-{number:03}/shard.tar": "x" * number for number in range(count)}


def listed(channel: Path) -> list[str]:
    return [Path(file).relative_to(channel).as_posix() for file in slipway.sorted_inputs("train", "*.tar")]


def the_same(folder: Path) -> Any:
    return listed(disk(folder, {**shards(20), "notes.txt": os.environ["SM_CURRENT_HOST"]}))


def one_file_fewer(folder: Path) -> Any:
    files = shards(20)
    if dist.get_rank() == 1:
        del files["part-007/shard.tar"]
    return listed(disk(folder, files))


def one_file_shorter(folder: Path) -> Any:
    files = shards(20)
    if dist.get_rank() == 2:
        files["part-013/shard.tar"] = "x"
    return listed(disk(folder, files))


def no_channel_on_one(folder: Path) -> Any:
    channel = disk(folder, shards(3))
    if dist.get_rank() == 1:
        os.environ["SM_CHANNEL_TRAIN"] = str(channel / "gone")
    return listed(channel)


def nothing_fits(folder: Path) -> Any:
    return slipway.sorted_inputs(disk(folder, shards(3)), "*.parquet")


def spread_over_hosts(folder: Path) -> Any:
    config = folder / f"config-{dist.get_rank()}"
    config.mkdir()
    channel = {"train": {"S3DistributionType": "ShardedByS3Key"}}
    (config / "inputdataconfig.json").write_text(json.dumps(channel))
    os.environ["SM_INPUT_CONFIG_DIR"] = str(config)
    return listed(disk(folder, {f"shard-{dist.get_rank()}.tar": "x"}))


CASES = [the_same, one_file_fewer, one_file_shorter, no_channel_on_one, nothing_fits, spread_over_hosts]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, forked_ranks: ForkedRanks) -> World:
    return run_world(forked_ranks, CASES, RANKS, tmp_path_factory.mktemp("world"))


def errors(outcomes: list[Outcome]) -> list[str]:
    return [str(outcome.error) for outcome in outcomes]


def test_all_ranks_get_the_same_files_in_the_same_order(world: World) -> None:
    for outcome in world["the_same"]:
        assert outcome.value == sorted(shards(20))


def test_a_host_that_lacks_a_file_is_named_on_all(world: World) -> None:
    for error in errors(world["one_file_fewer"]):
        assert error.startswith(
            "SlipwayError: DATA002 the files of train on algo-2 (rank 1) are not those of the other hosts: "
            "it lacks part-007/shard.tar (19 files there, 20 on algo-1). "
        )


def test_a_file_of_another_size_is_found(world: World) -> None:
    for error in errors(world["one_file_shorter"]):
        assert "on algo-3 (rank 2)" in error
        assert "part-013/shard.tar has 1 bytes there and 13 elsewhere" in error


def test_a_rank_without_its_files_tells_the_others(world: World) -> None:
    first, second, third = errors(world["no_channel_on_one"])
    assert second.startswith("FileNotFoundError: ")
    assert first == third
    assert first.startswith("SlipwayError: NCCL006 rank 1 could not list train, so this rank ends as well.")
    assert "Rank 1 on algo-2 raised FileNotFoundError: " in first


def test_a_pattern_that_nothing_fits_is_refused(world: World) -> None:
    for error in errors(world["nothing_fits"]):
        assert error.startswith("FileNotFoundError: no file in ")
        assert "fits '*.parquet'" in error


def test_files_that_are_spread_over_the_hosts_are_compared_within_each(world: World) -> None:
    assert [outcome.value for outcome in world["spread_over_hosts"]] == [
        ["shard-0.tar"], ["shard-1.tar"], ["shard-2.tar"],
    ]  # fmt: skip


def test_a_channel_is_found_by_its_name_also_with_hyphens(tmp_path: Path) -> None:
    environment = {"SM_CHANNEL_MY_TRAIN": str(tmp_path)}
    assert channel_folder("my-train", environment) == tmp_path
    assert channel_folder(tmp_path, {}) == tmp_path


def test_what_is_neither_channel_nor_folder_is_refused_with_the_channels(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^trian is neither .*; the job's channels are test, train$"):
        channel_folder("trian", {"SM_CHANNEL_TRAIN": "/x", "SM_CHANNEL_TEST": "/y"})
    with pytest.raises(FileNotFoundError, match="the job has no channels"):
        channel_folder(tmp_path / "gone", {})


@pytest.mark.parametrize("text", [None, "", "[]", '{"train": "x"}', '{"test": {}}', '{"train": {}}'])
def test_without_word_of_it_a_channel_is_not_spread(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "inputdataconfig.json").write_text(text)
    assert not is_sharded_channel("train", {"SM_INPUT_CONFIG_DIR": str(tmp_path)})
    assert not is_sharded_channel("train", {})


def test_one_process_alone_gets_its_list(tmp_path: Path) -> None:
    (tmp_path / "b").touch()
    (tmp_path / "a").touch()
    assert slipway.sorted_inputs(tmp_path) == [str(tmp_path / "a"), str(tmp_path / "b")]


def fill(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return folder


def names(folder: Path, pattern: str = "*") -> list[str]:
    return [path for path, _ in files_in(folder, pattern)]


def test_files_are_sorted_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    fill(tmp_path, "b.txt", "a/z.txt", "ä.txt", "B.txt", "a.txt", "a/b/c.txt", "10.txt", "9.txt")
    assert names(tmp_path) == [
        "10.txt", "9.txt", "B.txt", "a.txt", "a/b/c.txt", "a/z.txt", "b.txt", "ä.txt",
    ]  # fmt: skip


def test_a_pattern_is_for_the_name_or_with_a_slash_for_the_path(tmp_path: Path) -> None:
    fill(tmp_path, "a/x.tar", "b/x.tar", "b/x.txt", "x.tar")
    assert names(tmp_path, "*.tar") == ["a/x.tar", "b/x.tar", "x.tar"]
    assert names(tmp_path, "b/*.tar") == ["b/x.tar"]


def test_what_begins_with_a_dot_is_left_out(tmp_path: Path) -> None:
    assert names(fill(tmp_path, ".nfs01", ".cache/x.tar", "x.tar")) == ["x.tar"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    fill(tmp_path / "elsewhere", "x.tar")
    folder = fill(tmp_path / "train", "a.tar")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "b.tar").symlink_to(tmp_path / "elsewhere" / "x.tar")
    (folder / "again").symlink_to(folder)
    assert files_in(folder, "*") == [("a.tar", 5), ("b.tar", 5), ("linked/x.tar", 5)]


def test_a_link_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.tar").symlink_to(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match=r"x\.tar is a link that leads nowhere"):
        files_in(tmp_path, "*")


def test_a_name_that_is_no_text_is_listed(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.tar")).touch()
    assert [os.fsencode(path) for path, _ in files_in(tmp_path, "*.tar")] == [b"\xff.tar"]


ENTRIES = st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers(0, 9)), unique=True, max_size=8)


@given(ENTRIES, ENTRIES)
def test_only_equal_lists_have_one_fingerprint(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> None:
    def printable(entries: list[tuple[str, int]]) -> list[tuple[str, int]]:
        return [(path.encode("ascii", "ignore").decode().replace("\0", ""), size) for path, size in entries]

    one, other = printable(one), printable(other)
    assert (fingerprint(one) == fingerprint(other)) == (one == other)


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=9))
def test_the_odd_ones_are_fewer_than_the_rest_or_no_more(prints: list[str]) -> None:
    odd = odd_ones(prints)
    usual = {prints[position] for position in range(len(prints)) if position not in odd}
    assert len(usual) == 1
    assert all(prints[position] not in usual for position in odd)
    assert all(prints.count(prints[position]) <= prints.count(*usual) for position in odd)


@pytest.mark.parametrize(
    ("usual", "odd", "words"),
    [
        (("a", 1), ("b", 1), "it lacks a"),
        (("b", 1), ("a", 1), "it alone has a"),
        (("a", 1), ("a", 2000), "a has 2,000 bytes there and 1 elsewhere"),
        (("a", 1), None, "it lacks a"),
        (None, ("a", 1), "it alone has a"),
    ],
)  # fmt: skip
def test_the_first_difference_is_told_in_words(
    usual: tuple[str, int] | None, odd: tuple[str, int] | None, words: str
) -> None:
    assert difference(usual, odd) == words


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
