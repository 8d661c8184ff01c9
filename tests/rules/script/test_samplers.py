"""Samplers: that there are some, that they are used, and that they learn the epoch."""

from __future__ import annotations

import pytest

from launcher.rules.script import samplers
from launcher.rules.script.samplers import samplers_know_the_epoch
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

RULES = (
    samplers.training_data_is_split,
    samplers.samplers_stand_without_shuffle,
    samplers.samplers_are_used,
    samplers.samplers_count_all_ranks,
    samplers.samplers_share_their_seed,
)

START = """
import os, random
import torch
import torch.distributed as dist
import torchvision
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler, RandomSampler, TensorDataset
dist.init_process_group("nccl")
rank, world_size = dist.get_rank(), dist.get_world_size()
local_rank = int(os.environ["LOCAL_RANK"])
model = DDP(torch.nn.Linear(2, 2))
dataset = torchvision.datasets.ImageFolder("/opt/ml/input/data/train")
"""

TRAIN = """
for epoch in range(90):
    for batch in loader:
        model(batch).backward()
"""


def told(program: ReadProgram, text: str, start: str = START) -> list[tuple[str, str]]:
    read = program(start + text)
    found = [each for rule in RULES for each in rule(read)]
    return [(each.code, (each.subject or "").partition("(")[0]) for each in found]


@shows(samplers.training_data_is_split)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("loader = DataLoader(dataset, shuffle=True)" + TRAIN, id="no sampler"),
        pytest.param("loader = DataLoader(dataset, 32, sampler=None)" + TRAIN, id="no sampler, and said"),
        pytest.param(
            "loader = DataLoader(dataset, sampler=RandomSampler(dataset))" + TRAIN, id="not distributed"
        ),
        pytest.param(
            "loader = DataLoader(TensorDataset(torch.load('x.pt')))" + TRAIN, id="dataset of tensors"
        ),
        pytest.param(
            """
            class Words(Dataset):
                def __init__(self, path): self.lines = open(path).readlines()
                def __getitem__(self, index): return self.lines[index]
            def step(batch): model(batch).backward()
            def fit(loader):
                for number, batch in enumerate(loader):
                    step(batch)
            fit(DataLoader(Words("a.txt"), batch_size=4))
            """.replace("\n            ", "\n"),
            id="through functions, over a dataset of the program",
        ),
        pytest.param(
            """
            class Trainer:
                def __init__(self, loader): self.loader = loader
                def run(self):
                    for batch in self.loader:
                        model(batch).sum().backward()
            Trainer(DataLoader(dataset)).run()
            """.replace("\n            ", "\n"),
            id="kept by an object",
        ),
    ],
)
def test_a_loader_without_a_distributed_sampler_is_found(program: ReadProgram, text: str) -> None:
    assert told(program, text) == [("DATA003", "DataLoader")]


@leaves_alone(samplers.training_data_is_split)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "loader = DataLoader(dataset, sampler=DistributedSampler(dataset))" + TRAIN, id="sampler"
        ),
        pytest.param(
            "sampler = DistributedSampler(dataset) if world_size > 1 else None\n"
            "loader = DataLoader(dataset, shuffle=sampler is None, sampler=sampler)" + TRAIN,
            id="sampler where there are several processes",
        ),
        pytest.param(
            "if world_size > 1:\n"
            "    loader = DataLoader(dataset, sampler=DistributedSampler(dataset))\n"
            "else:\n"
            "    loader = DataLoader(dataset, shuffle=True)" + TRAIN,
            id="one process alone has no sampler",
        ),
        pytest.param(
            "loader = DataLoader(dataset)\nfor batch in loader:\n    print(model(batch))", id="evaluation"
        ),
        pytest.param(
            "loader = DataLoader(torch.utils.data.Subset(dataset, range(rank, 100, world_size)))" + TRAIN,
            id="cut by rank",
        ),
        pytest.param(
            "from datasets import load_dataset\n"
            "text = load_dataset('c4').shuffle(42 + rank)\nloader = DataLoader(text)" + TRAIN,
            id="shuffled by rank",
        ),
        pytest.param(
            "import slipway\nsampler = slipway.GlobalSampler(dataset, 64)\n"
            "loader = DataLoader(dataset, batch_sampler=sampler)\nwhile sampler.epoch < 90:\n"
            "    for batch in sampler.follow(loader):\n        model(batch).backward()",
            id="one order of all ranks",
        ),
        pytest.param("loader = DataLoader(unknown_dataset())" + TRAIN, id="unknown dataset"),
        pytest.param("loader = DataLoader(dataset, **options)" + TRAIN, id="unknown arguments"),
        pytest.param("loader = DataLoader(dataset, sampler=make_sampler())" + TRAIN, id="unknown sampler"),
        pytest.param(
            "from accelerate import Accelerator\nloader = Accelerator().prepare(DataLoader(dataset))" + TRAIN,
            id="prepared by Accelerate",
        ),
        pytest.param(
            "from somewhere import Engine\nloader = DataLoader(dataset)\nEngine().own(loader)" + TRAIN,
            id="handed to something unknown",
        ),
        pytest.param(
            "from torch.distributed.tensor.parallel import parallelize_module\n"
            "loader = DataLoader(dataset)" + TRAIN,
            id="ranks that share a model",
        ),
    ],
)
def test_what_is_split_or_not_surely_the_same_is_fine(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def test_without_a_wrapped_model_each_rank_may_train_its_own(program: ReadProgram) -> None:
    alone = START.replace("DDP(torch.nn.Linear(2, 2))", "torch.nn.Linear(2, 2)")
    assert told(program, "loader = DataLoader(dataset)" + TRAIN, alone) == []


@shows(samplers.samplers_stand_without_shuffle)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "sampler = DistributedSampler(dataset)\nl = DataLoader(dataset, shuffle=True, sampler=sampler)"
        ),
        pytest.param(
            "sampler = None\nif world_size > 1:\n    sampler = DistributedSampler(dataset)\n"
            "l = DataLoader(dataset, 32, True, sampler)",
            id="by position, where there are several processes",
        ),
        pytest.param("DataLoader(dataset, shuffle=True, sampler=DistributedSampler(dataset))", id="at once"),
    ],
)
def test_shuffle_beside_a_sampler_is_found(program: ReadProgram, text: str) -> None:
    assert told(program, text) == [("DATA003", "DataLoader")]


@leaves_alone(samplers.samplers_stand_without_shuffle)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("DataLoader(dataset, shuffle=False, sampler=DistributedSampler(dataset))", id="off"),
        pytest.param("DataLoader(dataset, shuffle=True, sampler=None)", id="no sampler"),
        pytest.param(
            "def make(sampler=None):\n"
            "    if sampler is None: return DataLoader(dataset, shuffle=True, sampler=sampler)\n"
            "    return DataLoader(dataset, sampler=sampler)\n"
            "make(DistributedSampler(dataset))",
            id="only without a sampler",
        ),
        pytest.param(
            "def make(shuffle, sampler): return DataLoader(dataset, shuffle=shuffle, sampler=sampler)\n"
            "make(True, None)\nmake(False, DistributedSampler(dataset))",
            id="one or the other",
        ),
    ],
)
def test_shuffle_without_a_sampler_is_fine(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


def test_a_sampler_that_no_loader_gets_is_found(program: ReadProgram) -> None:
    text = (
        "sampler = DistributedSampler(dataset)\nloader = DataLoader(other(), shuffle=True)\n"
        "for epoch in range(3):\n    sampler.set_epoch(epoch)\n    print(len(sampler))"
    )
    assert told(program, text) == [("DATA003", "DistributedSampler")]


@leaves_alone(samplers.samplers_are_used)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("sampler = DistributedSampler(dataset)\nprint(*sampler)", id="read"),
        pytest.param(
            "sampler = DistributedSampler(dataset)\nfor i in sampler: DataLoader(i)", id="looped over"
        ),
        pytest.param(
            "def make():\n    sampler = DistributedSampler(dataset)\n    return sampler, DataLoader(dataset)",
            id="given back",
        ),
        pytest.param(
            "self.sampler = DistributedSampler(dataset)\nDataLoader(dataset)", id="kept by an object"
        ),
    ],
)
def test_a_sampler_that_is_read_is_used(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


RECIPE = """
class Recipe:
    def __init__(self):
        self.model = DistributedDataParallel(model)
        self.sampler, self.loader = self.data(unknown())

    def data(self, dataset):
        sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank)
        loader = DataLoader(dataset, {given})
        return sampler, loader

    def train(self):
        for epoch in range(3):
            self.sampler.set_epoch(epoch)
            for batch in self.loader:
                self.model(batch).backward()
{more}

recipe = Recipe()
recipe.train()
"""


@shows(samplers.samplers_are_used)
@pytest.mark.parametrize("given", ["batch_size=8", "batch_size=8, shuffle=True", "sampler=None"])
def test_a_sampler_that_is_handed_on_and_drawn_from_nowhere_is_found(
    program: ReadProgram, given: str
) -> None:
    text = RECIPE.format(given=given, more="")
    assert told(program, text) == [("DATA003", "DistributedSampler")]


@leaves_alone(samplers.samplers_are_used)
@pytest.mark.parametrize(
    ("given", "more"),
    [
        pytest.param("sampler=sampler", "", id="given to the loader"),
        pytest.param("batch_sampler=batches(sampler)", "", id="given on"),
        pytest.param("batch_size=8", "        self.other = make(self.sampler)", id="drawn from elsewhere"),
        pytest.param("batch_size=8", "        print(list(self.sampler))", id="read elsewhere"),
        pytest.param("batch_size=8", "        self.spare = [self.sampler]", id="kept where nobody sees"),
        pytest.param("batch_sampler=unknown", "", id="the loader may have one"),
    ],
)
def test_a_sampler_that_is_handed_on_and_may_be_drawn_from_is_left_alone(
    program: ReadProgram, given: str, more: str
) -> None:
    assert told(program, RECIPE.format(given=given, more=more)) == []


def test_the_rank_on_the_host_among_all_ranks_is_found(program: ReadProgram) -> None:
    text = "use(DistributedSampler(dataset, num_replicas=world_size, rank=local_rank))"
    assert told(program, text) == [("DATA003", "DistributedSampler")]
    assert told(program, "use(DistributedSampler(dataset, rank=local_rank))") == [
        ("DATA003", "DistributedSampler")
    ]


@shows(samplers.samplers_count_all_ranks)
@pytest.mark.parametrize(
    "size",
    [
        "from accelerate import Accelerator\nsize = Accelerator().num_processes\n",
        "from lightning.fabric import Fabric\nfabric = Fabric()\nsize = fabric.world_size\n",
    ],
)
def test_the_rank_on_the_host_beside_a_librarys_number_of_all_ranks_is_found(
    program: ReadProgram, size: str
) -> None:
    text = size + "use(DistributedSampler(dataset, num_replicas=size, rank=local_rank))"
    assert told(program, text) == [("DATA003", "DistributedSampler")]


@leaves_alone(samplers.samplers_count_all_ranks)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("use(DistributedSampler(dataset, world_size, rank))", id="the global rank"),
        pytest.param(
            "use(DistributedSampler(dataset, int(os.environ['LOCAL_WORLD_SIZE']), local_rank))",
            id="the ranks of a host, which has its own data",
        ),
        pytest.param(
            "import torch.multiprocessing as mp\n"
            "def worker(rank, size): use(DistributedSampler(dataset, dist.get_world_size(), rank))\n"
            "mp.spawn(worker, args=(8,))",
            id="spawned on one host",
        ),
    ],
)
def test_a_rank_among_its_own_is_fine(program: ReadProgram, text: str) -> None:
    assert told(program, text) == []


@shows(samplers.samplers_share_their_seed)
@pytest.mark.parametrize(
    "seed",
    [
        "rank",
        "42 + rank",
        "dist.get_rank()",
        "seed_of_rank",
        "int(os.environ['RANK'])",
    ],
)
def test_a_sampler_seed_that_differs_by_rank_is_found(program: ReadProgram, seed: str) -> None:
    text = f"seed_of_rank = 1000 * local_rank\nuse(DistributedSampler(dataset, seed={seed}))"
    assert [code for code, _ in told(program, text)] == ["DATA008"]


@leaves_alone(samplers.samplers_share_their_seed)
@pytest.mark.parametrize(
    "call",
    [
        "DistributedSampler(dataset, seed=42)",
        "DistributedSampler(dataset)",
        "DistributedSampler(dataset, rank=rank, num_replicas=world_size, seed=7)",
        "DistributedSampler(dataset, seed=seed)",
        "DistributedSampler(dataset, seed=world_size)",
        "DistributedSampler(dataset, seed=torch.initial_seed() - rank)",
        "DistributedSampler(dataset, seed=max(0, (base := 1 + seed_of(rank)) - rank - 1))",
        "DistributedSampler(dataset, **options)",
        "torch.manual_seed(42 + rank)",
        "RandomSampler(dataset, generator=torch.Generator().manual_seed(rank))",
    ],
)
def test_a_common_seed_of_the_sampler_is_fine(program: ReadProgram, call: str) -> None:
    assert told(program, f"use({call})") == []


TRAINERS = """
import torch
import torch.distributed as dist
import torchvision
from torch.utils.data import DataLoader
import wrapping

TRAINERS = {"alone": Alone, "wrapped": wrapping.Wrapped}
dist.init_process_group("nccl")

class Alone:
    def train(self):
        model = torch.nn.Linear(2, 2)
        for batch in DataLoader(torchvision.datasets.ImageFolder("data"), shuffle=True):
            model(batch).backward()

def run(name):
    TRAINERS[name]().train()
"""


def test_another_trainers_wrapper_says_nothing_of_a_loop(program: ReadProgram) -> None:
    wrapped = "class Wrapped:\n    def train(self):\n        DistributedDataParallel(self.model)\n"
    wrapping = "from torch.nn.parallel import DistributedDataParallel\n"
    others = {"wrapping.py": wrapping + wrapped}
    assert [each.code for each in samplers.training_data_is_split(program(TRAINERS, **others))] == []
    calls = TRAINERS.replace("torch.nn.Linear(2, 2)", "wrapping.wrapped(torch.nn.Linear(2, 2))")
    others = {"wrapping.py": wrapping + "def wrapped(model):\n    return DistributedDataParallel(model)\n"}
    assert [each.code for each in samplers.training_data_is_split(program(calls, **others))] == ["DATA003"]


__all___epochs = ["program"]

START_epochs = """
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(dataset)
val_sampler = DistributedSampler(val_dataset, shuffle=False)
loader = DataLoader(dataset, sampler=sampler)
val_loader = DataLoader(val_dataset, sampler=val_sampler)
"""


def told_epochs(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    found = samplers_know_the_epoch(program(START_epochs + text))
    return [(each.code, each.subject or "") for each in found]


@shows(samplers_know_the_epoch)
@pytest.mark.parametrize(
    ("text", "subject"),
    [
        pytest.param(
            "for epoch in range(90):\n    for batch in loader: model(batch).backward()",
            "range(90)",
            id="nested loops",
        ),
        pytest.param(
            "def train(loader):\n    for i, batch in enumerate(loader): model(batch).backward()\n"
            "def main():\n    for epoch in range(args.epochs):\n        train(loader)\n        validate()\n"
            "main()",
            "range(args.epochs)",
            id="an epoch is a function",
        ),
        pytest.param(
            "class Trainer:\n"
            "    def __init__(self, loader): self.loader = loader\n"
            "    def epoch(self):\n        for batch in self.loader: self.model(batch).backward()\n"
            "    def run(self):\n        for number in range(9): self.epoch()\n"
            "Trainer(loader).run()",
            "range(9)",
            id="an epoch is a method",
        ),
        pytest.param(
            "from tqdm import tqdm\nfor epoch in tqdm(range(9)):\n"
            "    for batch in tqdm(loader, total=9): model(batch).backward()",
            "tqdm(range(9))",
            id="with bars",
        ),
        pytest.param(
            "step = 0\nwhile step < 1000:\n    for batch in loader:\n        model(batch).backward()",
            "step < 1000",
            id="until so many steps",
        ),
        pytest.param(
            "for epoch in range(90):\n    val_sampler.set_epoch(epoch)\n"
            "    for batch in loader: model(batch).backward()",
            "val_sampler.set_epoch(epoch)",
            id="on the validation's sampler",
        ),
        pytest.param(
            "for epoch in range(90):\n    val_loader.sampler.set_epoch(epoch)\n"
            "    for batch in loader: model(batch).backward()",
            "val_loader.sampler.set_epoch(epoch)",
            id="on the sampler of the validation's loader",
        ),
        pytest.param(
            "for epoch in range(90):\n    sampler.set_epoch(0)\n"
            "    for batch in loader: model(batch).backward()",
            "sampler.set_epoch(0)",
            id="always the same epoch",
        ),
    ],
)
def test_an_order_that_repeats_is_found(program: ReadProgram, text: str, subject: str) -> None:
    assert told_epochs(program, text) == [("DATA004", subject)]


NESTED = "for epoch in range(90):\n    {}\n    for batch in loader: model(batch).backward()"


@leaves_alone(samplers_know_the_epoch)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(NESTED.format("sampler.set_epoch(epoch)"), id="on the sampler"),
        pytest.param(NESTED.format("loader.sampler.set_epoch(epoch)"), id="on the loader's sampler"),
        pytest.param(NESTED.format("if distributed: sampler.set_epoch(epoch)"), id="where distributed"),
        pytest.param(NESTED.format("getattr(self, 'sampler').set_epoch(epoch)"), id="on something unknown"),
        pytest.param(
            "other = DistributedSampler(val_dataset)\n"
            + NESTED.format("sampler.set_epoch(epoch)\n    other.set_epoch(0)")
            + "\n    for batch in DataLoader(dataset, sampler=other): model(batch).backward()",
            id="another stays as it is",
        ),
        pytest.param(NESTED.format("callbacks.append(sampler.set_epoch)"), id="called by others"),
        pytest.param("for batch in loader: model(batch).backward()", id="one epoch"),
        pytest.param("for epoch in range(1):\n    for batch in loader: model(batch).backward()", id="once"),
        pytest.param("for epoch in range(9):\n    for batch in loader: model(batch)", id="no training"),
        pytest.param(
            "for epoch in range(9):\n    for batch in val_loader: model(batch).backward()", id="no shuffle"
        ),
        pytest.param(
            "def train(loader, epoch):\n    loader.sampler.set_epoch(epoch)\n"
            "    for batch in loader: model(batch).backward()\n"
            "for epoch in range(9): train(loader, epoch)",
            id="in the function of an epoch",
        ),
        pytest.param(
            "from accelerate import Accelerator\nloader = Accelerator().prepare(loader)\n"
            + NESTED.format("pass"),
            id="Accelerate tells it",
        ),
        pytest.param(
            "import lightning\nlightning.Trainer().fit(model, loader)\n" + NESTED.format("pass"),
            id="Lightning",
        ),
        pytest.param(
            "loader = DataLoader(dataset, sampler=DistributedSampler(dataset, shuffle=args.shuffle))\n"
            + NESTED.format("pass"),
            id="unknown whether it shuffles",
        ),
    ],
)
def test_what_knows_its_epoch_or_has_one_is_fine(program: ReadProgram, text: str) -> None:
    assert told_epochs(program, text) == []


def test_the_batch_samplers_sampler_counts(program: ReadProgram) -> None:
    batches = (
        "from torch.utils.data import BatchSampler\n"
        "loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 8, True))\n"
    )
    assert told_epochs(program, batches + NESTED.format("pass")) == [("DATA004", "range(90)")]
    assert told_epochs(program, batches + NESTED.format("sampler.set_epoch(epoch)")) == []
