"""Who owns a loader is said per object: by what it went through, or by the class that makes it."""

from __future__ import annotations

import pytest

from launcher.program.program import Program
from launcher.rules.script.data.by_libraries import LoaderOwner, LoaderOwners
from launcher.rules.script.data.loaders import LOADER, SAMPLER
from tests.program.conftest import ReadProgram, program

__all__ = ["program"]

START = """
import torch, deepspeed, pytorch_lightning as pl
from torch.utils.data import DataLoader, DistributedSampler
from accelerate import Accelerator
from lightning.fabric import Fabric
from transformers import Trainer
accelerator, fabric, trainer = Accelerator(), Fabric(), pl.Trainer()
"""


def owners_of_loaders(program: Program) -> list[LoaderOwner]:
    return [program.analysis(LoaderOwners).owner_of(call) for call, _ in program.calls(LOADER)]


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("loader = DataLoader(d)\n", LoaderOwner.SCRIPT),
        ("loader = DataLoader(d)\nm, loader = accelerator.prepare(m, loader)\n", LoaderOwner.ACCELERATE),
        ("loader = fabric.setup_dataloaders(DataLoader(d))\n", LoaderOwner.FABRIC),
        ("loader = DataLoader(d)\ntrainer.fit(model, [loader])\n", LoaderOwner.LIGHTNING),
        ("def f(l):\n    return accelerator.prepare(l)\nf(DataLoader(d))\n", LoaderOwner.ACCELERATE),
        (
            "class M(pl.LightningModule):\n    def train_dataloader(self):\n        return DataLoader(d)\n",
            LoaderOwner.LIGHTNING,
        ),
        (
            "class B(Trainer): ...\nclass T(B):\n    def get(self):\n        return DataLoader(d)\n",
            LoaderOwner.TRANSFORMERS,
        ),
        ("loader = DataLoader(d)\nm = accelerator.prepare(m)\n", LoaderOwner.SCRIPT),
        ("class M:\n    def train_dataloader(self):\n        return DataLoader(d)\n", LoaderOwner.SCRIPT),
    ],
)
def test_a_loader_belongs_to_what_it_went_through(
    program: ReadProgram, text: str, owner: LoaderOwner
) -> None:
    assert owners_of_loaders(program(START + text)) == [owner]


def test_of_two_loaders_only_the_prepared_one_is_owned(program: ReadProgram) -> None:
    read = program(START + "a, b = DataLoader(x), DataLoader(y)\na = accelerator.prepare(a)\n")
    assert owners_of_loaders(read) == [LoaderOwner.ACCELERATE, LoaderOwner.SCRIPT]


def test_a_sampler_beside_deepspeed_is_the_scripts(program: ReadProgram) -> None:
    read = program(START + "s = DistributedSampler(d)\ne, *_ = deepspeed.initialize(model=m)\n")
    ((call, _),) = read.calls(SAMPLER)
    assert read.analysis(LoaderOwners).owner_of(call) is LoaderOwner.SCRIPT
