"""Whether anybody reduces the gradients and applies them."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import reduction
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import torch, deepspeed
import torch.distributed as dist
from datetime import timedelta
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler
"""


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(START + text, **others)
    return [finding for rule in reduction.RULES for finding in rule(read)]


def codes(findings: list[Finding], code: str) -> list[Finding]:
    return [each for each in findings if each.code == code]


LOOP = """
dist.init_process_group("nccl")
model = torch.nn.Linear(1, 1)
{wrap}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sampler = DistributedSampler(data)
for batch in DataLoader(data, sampler=sampler):
    optimizer.zero_grad()
    loss = model(batch).sum()
    loss.backward()
    {reduce}
    optimizer.step()
"""


@shows(reduction.gradients_are_reduced)
@pytest.mark.parametrize(
    ("wrap", "reduce"),
    [
        ("", ""),
        ("model = model.to('cuda')", "print(loss)"),
        ("", "dist.all_reduce(loss)"),
        ("", "dist.all_reduce(loss, op=dist.ReduceOp.SUM)"),
        ("model = torch.compile(model)", "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        ("", "dist.barrier()"),
        ("model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)", ""),
    ],
)
def test_gradients_that_nobody_reduces_are_found(program: ReadProgram, wrap: str, reduce: str) -> None:
    (finding,) = codes(judge(program, LOOP.format(wrap=wrap, reduce=reduce)), "DDP009")
    assert finding.subject == "loss.backward()"
    assert [each.message for each in finding.related] == ["the process group", "the data is divided"]


@leaves_alone(reduction.gradients_are_reduced)
@pytest.mark.parametrize(
    ("wrap", "reduce"),
    [
        ("model = DDP(model)", ""),
        ("from torch.distributed.fsdp import fully_shard\nfully_shard(model)", ""),
        ("", "for p in model.parameters():\n        dist.all_reduce(p.grad)"),
        (
            "def average(model):\n    for p in model.parameters():\n        dist.all_reduce(p.grad)",
            "average(model)",
        ),
        ("from lib import wrap_in_ddp\nmodel = wrap_in_ddp(model)", ""),
        ("import horovod.torch as hvd\nhvd.DistributedOptimizer(1)", ""),
        ("from lib import *", ""),
        ("from torch.distributed.tensor.parallel import parallelize_module\nparallelize_module(model)", ""),
        ("for p in model.parameters():\n    p.register_hook(average)", ""),
        ("model = torch.nn.DataParallel(model)", ""),
    ],
)
def test_gradients_that_somebody_may_reduce_are_right(program: ReadProgram, wrap: str, reduce: str) -> None:
    assert codes(judge(program, LOOP.format(wrap=wrap, reduce=reduce)), "DDP009") == []


def test_a_program_that_does_not_divide_the_data_says_nothing(program: ReadProgram) -> None:
    text = LOOP.format(wrap="", reduce="").replace("DistributedSampler(data)", "None")
    assert codes(judge(program, text), "DDP009") == []


ENGINE = "engine, optimizer, _, scheduler = deepspeed.initialize(model=model)\n"


@shows(reduction.engines_are_stepped)
@pytest.mark.parametrize(
    "text",
    [
        ENGINE + "engine.backward(loss)",
        ENGINE + "engine.backward(loss)\noptimizer.step()",
        ENGINE + "engine.backward(loss)\nscheduler.step()",
        ENGINE + "def train(model):\n    model.backward(model(1))\ntrain(engine)",
        "class T:\n    def __init__(self):\n        self.e, *_ = deepspeed.initialize(model=1)\n"
        "    def run(self):\n        self.e.backward(1)\nT().run()",
    ],
)
def test_an_engine_that_is_never_stepped_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = codes(judge(program, text), "DDP010")
    assert "backward" in (finding.subject or "")


@leaves_alone(reduction.engines_are_stepped)
@pytest.mark.parametrize(
    "text",
    [
        ENGINE + "engine.backward(loss)\nengine.step()",
        ENGINE + "engine.backward(loss)\nfor _ in range(2):\n    engine.step()",
        ENGINE + "engine.train_batch()",
        ENGINE + "engine.eval()",
        ENGINE + "loss.backward()\noptimizer.step()",
        ENGINE + "engine.backward(loss)\nunknown().step()",
        ENGINE + "def train(model):\n    model.backward(model(1))\n    model.step()\ntrain(engine)",
        "import lib\nengine = lib.build()\nengine.backward(loss)",
    ],
)
def test_an_engine_that_is_stepped_or_not_driven_by_hand_is_right(program: ReadProgram, text: str) -> None:
    assert codes(judge(program, text), "DDP010") == []
