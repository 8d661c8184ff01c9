"""Parts of the data that are equally many, and cut out of one order: DATA001, and DATA003 for shuffles."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Severity
from launcher.rules.script.shards import shards_are_equally_many, shuffles_before_a_cut_agree
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import random
from itertools import islice
import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, random_split
dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
"""

SHARDS = """
class Shards(IterableDataset):
    def __init__(self, paths): self.paths = paths
    def __iter__(self):
        {}
loader = DataLoader(Shards(paths), batch_size=8)
"""
TRAIN = """
for epoch in range(3):
    for batch in loader:
        model(batch).backward()
"""


def told(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in shards_are_equally_many(program(START + text))]


@shows(shards_are_equally_many)
@pytest.mark.parametrize(
    ("body", "subject"),
    [
        (
            "for path in self.paths[rank::world_size]: yield from read(path)",
            "self.paths[rank::world_size]",
        ),
        (
            "yield from islice(self.paths, rank, None, world_size)",
            "islice(self.paths, rank, None, world_size)",
        ),
        (
            "for i, path in enumerate(self.paths):\n            if i % world_size == rank: yield read(path)",
            "i % world_size == rank",
        ),
        (
            "for i, path in enumerate(self.paths):\n"
            "            if i % dist.get_world_size() != dist.get_rank(): continue\n"
            "            yield read(path)",
            "i % dist.get_world_size() != dist.get_rank()",
        ),
        (
            "mine = self.paths[dist.get_rank()::dist.get_world_size()]\n        yield from mine",
            "self.paths[dist.get_rank()::dist.get_world_size()]",
        ),
    ],
)
def test_every_nth_element_is_found(program: ReadProgram, body: str, subject: str) -> None:
    assert told(program, SHARDS.format(body) + TRAIN) == [("DATA001", subject)]


def test_it_is_a_warning_as_the_number_may_divide(program: ReadProgram) -> None:
    text = START + SHARDS.format("yield from self.paths[rank::world_size]") + TRAIN
    assert [each.severity for each in shards_are_equally_many(program(text))] == [Severity.WARNING]


def test_a_subset_of_every_nth_sample_is_found(program: ReadProgram) -> None:
    text = "samples = load()\nloader = DataLoader(samples[rank::world_size], batch_size=4)" + TRAIN
    assert told(program, text) == [("DATA001", "samples[rank::world_size]")]


EVERY_NTH = SHARDS.format("yield from self.paths[rank::world_size]")


@leaves_alone(shards_are_equally_many)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(SHARDS.format("yield from self.paths") + TRAIN, id="not cut"),
        pytest.param(
            SHARDS.format(
                "n = len(self.paths) // world_size\n        yield from self.paths[rank * n : (rank + 1) * n]"
            )
            + TRAIN,
            id="blocks of one size",
        ),
        pytest.param(
            SHARDS.format(
                "n = len(self.paths) // world_size * world_size\n"
                "        yield from self.paths[:n][rank::world_size]"
            )
            + TRAIN,
            id="the rest is cut off",
        ),
        pytest.param(
            SHARDS.format("while True:\n            yield from self.paths[rank::world_size]") + TRAIN,
            id="without end",
        ),
        pytest.param(
            EVERY_NTH + "for batch in loader:\n    model(batch).backward()\n    if done(): break",
            id="a loop that may end by itself",
        ),
        pytest.param(
            EVERY_NTH + "for batch in islice(loader, 100):\n    model(batch).backward()",
            id="so many steps",
        ),
        pytest.param(
            "from torch.distributed.algorithms import Join\n" + EVERY_NTH + "with Join([model]):\n"
            "    for batch in loader:\n        model(batch).backward()",
            id="joined",
        ),
        pytest.param(EVERY_NTH + "for batch in loader:\n    print(model(batch))", id="evaluation"),
        pytest.param(EVERY_NTH.replace("batch_size=8", "drop_last=True") + TRAIN, id="full batches alone"),
        pytest.param(SHARDS.format("yield from self.paths[worker::workers]") + TRAIN, id="cut by worker"),
        pytest.param("loader = DataLoader(d, sampler=DistributedSampler(d))" + TRAIN, id="sampler"),
    ],
)
def test_equal_or_unknown_numbers_are_fine(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def shuffled(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in shuffles_before_a_cut_agree(program(START + text))]


@shows(shuffles_before_a_cut_agree)
@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("random.shuffle(files)\nmine = files[rank::world_size]", "random.shuffle(files)"),
        ("np.random.shuffle(files)\nmine = files[rank::world_size]", "np.random.shuffle(files)"),
        (
            "def mine(files):\n    random.shuffle(files)\n"
            "    return list(islice(files, rank, None, world_size))",
            "random.shuffle(files)",
        ),
        (
            "train, val = random_split(data, [90, 10])\nloader = DataLoader(train)",
            "random_split(data, [90, 10])",
        ),
        (
            "train, val = torch.utils.data.random_split(data, [0.9, 0.1])\n"
            "loader = DataLoader(train, sampler=DistributedSampler(train))",
            "torch.utils.data.random_split(data, [0.9, 0.1])",
        ),
    ],
)
def test_an_unseeded_order_of_each_rank_is_found(program: ReadProgram, text: str, subject: str) -> None:
    assert shuffled(program, text) == [("DATA003", subject)]


@leaves_alone(shuffles_before_a_cut_agree)
@pytest.mark.parametrize(
    "text",
    [
        "random.Random(0).shuffle(files)\nmine = files[rank::world_size]",
        "random.seed(0)\nrandom.shuffle(files)\nmine = files[rank::world_size]",
        "set_seed(args.seed)\nrandom.shuffle(files)\nmine = files[rank::world_size]",
        "mine = files[rank::world_size]\nrandom.shuffle(mine)",
        "random.shuffle(names)\nprint(names)",
        "train, val = random_split(d, [9, 1], generator=torch.Generator().manual_seed(0))\nDataLoader(train)",
        "train, val = random_split(d, [9, 1], my_generator)\nDataLoader(train)",
        "torch.manual_seed(7)\ntrain, val = random_split(d, [9, 1])\nDataLoader(train)",
        "train, val = random_split(d, [9, 1], **options)\nDataLoader(train)",
    ],
)
def test_a_common_order_is_fine(program: ReadProgram, text: str) -> None:
    assert shuffled(program, text) == []


BLOCKS = [
    (
        "yield from np.array_split(self.paths, world_size)[rank]",
        "np.array_split(self.paths, world_size)[rank]",
    ),
    (
        "yield from torch.tensor_split(self.paths, dist.get_world_size())[dist.get_rank()]",
        "torch.tensor_split(self.paths, dist.get_world_size())[dist.get_rank()]",
    ),
    (
        "size = math.ceil(len(self.paths) / world_size)\n"
        "        yield from self.paths[rank * size:(rank + 1) * size]",
        "self.paths[rank * size:(rank + 1) * size]",
    ),
    (
        "size = int(math.ceil(len(self.paths) / world_size))\n"
        "        first = rank * size\n        yield from self.paths[first:first + size]",
        "self.paths[first:first + size]",
    ),
    (
        "size = len(self.paths) // world_size\n"
        "        end = len(self.paths) if rank == world_size - 1 else (rank + 1) * size\n"
        "        yield from self.paths[rank * size:end]",
        "self.paths[rank * size:end]",
    ),
    (
        "size = len(self.paths) // world_size\n"
        "        yield from self.paths[rank * size:(rank + 1) * size if rank != world_size - 1 else None]",
        "self.paths[rank * size:(rank + 1) * size if rank != world_size - 1 else None]",
    ),
]


@pytest.mark.parametrize(("body", "subject"), BLOCKS)
def test_a_block_of_unequal_ones_is_found(program: ReadProgram, body: str, subject: str) -> None:
    assert told(program, "import math\n" + SHARDS.format(body) + TRAIN) == [("DATA001", subject)]


@pytest.mark.parametrize(
    "body",
    [
        "size = len(self.paths) // world_size\n        yield from self.paths[rank * size:(rank + 1) * size]",
        "yield from np.split(self.paths, world_size)[rank]",
        "yield from np.array_split(self.paths, world_size)[worker]",
        "yield from np.array_split(self.paths, 4)[rank]",
        "yield from self.paths.chunk(world_size)[rank]",
        "size = math.ceil(len(self.paths) / workers)\n"
        "        yield from self.paths[worker * size:(worker + 1) * size]",
        "size = math.floor(len(self.paths) / world_size)\n"
        "        yield from self.paths[rank * size:(rank + 1) * size]",
        "size = math.ceil(len(self.paths) / 8)\n        yield from self.paths[rank * size:(rank + 1) * size]",
        "size = len(self.paths) // world_size\n"
        "        end = (rank + 1) * size if rank == world_size - 1 else rank * size + size\n"
        "        yield from self.paths[rank * size:end]",
        "size = math.ceil(len(self.paths) / world_size)\n        padded = self.paths + self.paths[:size]\n"
        "        yield from padded[rank * size:(rank + 1) * size]",
    ],
)
def test_blocks_that_are_or_may_be_equally_long_are_silent(program: ReadProgram, body: str) -> None:
    assert told(program, "import math\n" + SHARDS.format(body) + TRAIN) == []
