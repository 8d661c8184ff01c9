"""Samplers that shuffle learn which epoch it is: DATA004."""

from __future__ import annotations

import pytest

from launcher.rules.script.epochs import samplers_know_the_epoch
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
sampler = DistributedSampler(dataset)
val_sampler = DistributedSampler(val_dataset, shuffle=False)
loader = DataLoader(dataset, sampler=sampler)
val_loader = DataLoader(val_dataset, sampler=val_sampler)
"""


def told(program: ReadProgram, text: str) -> list[tuple[str, str]]:
    found = samplers_know_the_epoch(program(START + text))
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
    assert told(program, text) == [("DATA004", subject)]


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
    assert told(program, text) == []


def test_the_batch_samplers_sampler_counts(program: ReadProgram) -> None:
    batches = (
        "from torch.utils.data import BatchSampler\n"
        "loader = DataLoader(dataset, batch_sampler=BatchSampler(sampler, 8, True))\n"
    )
    assert told(program, batches + NESTED.format("pass")) == [("DATA004", "range(90)")]
    assert told(program, batches + NESTED.format("sampler.set_epoch(epoch)")) == []
