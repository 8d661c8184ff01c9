"""Who owns a loader is said per object, and a training loop knows its loader and the loop of epochs."""

from __future__ import annotations

import pytest

from launcher.program.loops import DDP_WRAPPER, FSDP_WRAPPER, LOADER, SAMPLER, LoaderOwner
from launcher.program.values import Instance
from tests.program.conftest import ReadProgram

START = """
import torch, deepspeed, pytorch_lightning as pl
from torch.utils.data import DataLoader, DistributedSampler
from accelerate import Accelerator
from lightning.fabric import Fabric
from transformers import Trainer
accelerator, fabric, trainer = Accelerator(), Fabric(), pl.Trainer()
"""


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
    assert [each for _, each in program(START + text).loops.loaders()] == [owner]


def test_of_two_loaders_only_the_prepared_one_is_owned(program: ReadProgram) -> None:
    read = program(START + "a, b = DataLoader(x), DataLoader(y)\na = accelerator.prepare(a)\n")
    assert [owner for _, owner in read.loops.loaders()] == [LoaderOwner.ACCELERATE, LoaderOwner.SCRIPT]


def test_a_sampler_beside_deepspeed_is_the_scripts(program: ReadProgram) -> None:
    read = program(START + "s = DistributedSampler(d)\ne, *_ = deepspeed.initialize(model=m)\n")
    ((call, _),) = read.calls(SAMPLER)
    assert read.loops.owner_of(call) is LoaderOwner.SCRIPT


def test_a_training_loop_knows_its_loader_and_the_loop_of_epochs(program: ReadProgram) -> None:
    read = program(
        START
        + "loader = DataLoader(d)\nfor epoch in range(3):\n    for i, b in enumerate(loader):\n"
        + "        loss(b).backward()\n"
    )
    (loop,) = read.loops.training
    assert isinstance(loop.loader, Instance)
    assert loop.loader.name == LOADER
    assert loop.epochs is not None
    assert (loop.epochs.lineno, loop.node.lineno) == (9, 10)


def test_the_loop_of_epochs_may_stand_around_the_call(program: ReadProgram) -> None:
    read = program(
        START
        + "def train(loader):\n    for b in loader:\n        loss(b).backward()\n"
        + "loader = DataLoader(d)\nfor epoch in range(3):\n    train(loader)\n"
    )
    (loop,) = read.loops.training
    assert loop.epochs is not None
    assert loop.epochs.lineno == 12
    assert loop.owner is LoaderOwner.SCRIPT


def test_a_loop_over_what_accelerate_prepared_is_accelerates(program: ReadProgram) -> None:
    read = program(
        START
        + "m, l = accelerator.prepare(m, DataLoader(d))\nfor b in l:\n    accelerator.backward(loss(b))\n"
    )
    (loop,) = read.loops.training
    assert loop.owner is LoaderOwner.ACCELERATE


def test_a_loop_without_a_backward_pass_trains_nothing(program: ReadProgram) -> None:
    assert program(START + "for b in DataLoader(d):\n    print(b)\n").loops.training == ()


@pytest.mark.parametrize(
    ("text", "wrapper"),
    [
        ("m = torch.nn.parallel.DistributedDataParallel(m)\n", DDP_WRAPPER),
        ("m = net()\nif many:\n    m = torch.nn.parallel.DistributedDataParallel(m)\n", DDP_WRAPPER),
        ("m = torch.distributed.fsdp.FullyShardedDataParallel(m)\n", FSDP_WRAPPER),
        ("m = torch.nn.Linear(1, 1)\n", None),
        ("m = torch.nn.DataParallel(m)\n", None),
    ],
)
def test_a_wrapped_model_is_known(program: ReadProgram, text: str, wrapper: str | None) -> None:
    read = program(START + text + "look(m)\n")
    (call,) = read.entry.calls_of["look"]
    assert read.loops.wrapped(call.args[0]) == wrapper
