"""Forward passes of wrapped models that not every rank runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.rules.script.collectives import collectives_are_run_by_every_rank
from launcher.scripts.program import Program
from launcher.scripts.reading import read_program

START = """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, ShardingStrategy, fully_shard

dist.init_process_group("nccl")
rank = dist.get_rank()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.one = torch.nn.Linear(1, 1)
        self.norm = torch.nn.BatchNorm1d(1)


class Plain(torch.nn.Module):
    def __init__(self, normed=False):
        super().__init__()
        self.one = torch.nn.Linear(1, 1)
        if normed:
            self.norm = torch.nn.BatchNorm1d(1)


def evaluate(model):
    model.eval()
    with torch.no_grad():
        for batch in held_out:
            result = model(batch)


def train(model):
    for batch in data:
        loss = model(batch).sum()
        loss.backward()
"""

FOUND = {
    "FSDP evaluated on rank 0": "m = FSDP(net)\ntrain(m)\nif rank == 0:\n    evaluate(m)\n",
    "FSDP called on rank 0": "m = FSDP(net)\nif rank == 0:\n    out = m(batch)\n",
    "FSDP of an odd rank": (
        "m = FSDP(net, sharding_strategy=ShardingStrategy.FULL_SHARD)\nif rank % 2:\n    m(x)\n"
    ),
    "FSDP behind a return": (
        "def go():\n    m = FSDP(net)\n    if rank != 0:\n        return\n    m(batch)\ngo()\n"
    ),
    "FSDP 2 in place": "m = Net()\nfully_shard(m)\nif rank == 0:\n    evaluate(m)\n",
    "FSDP 2 layer by layer": (
        "m = Plain()\nfor layer in m.children():\n    fully_shard(layer)\nfully_shard(m)\n"
        "if rank == 0:\n    out = m(x)\n"
    ),
    "FSDP 2 by its result": "m = fully_shard(net)\nif rank == 0:\n    m(x)\n",
    "FSDP left on one rank": (
        "m = FSDP(net)\nfor batch in data:\n    if rank == 0 and stop:\n        break\n    out = m(batch)\n"
    ),
}

SILENT = {
    "FSDP evaluated on every rank": "m = FSDP(net)\ntrain(m)\nevaluate(m)\n",
    "FSDP in both arms": "m = FSDP(net)\nif rank == 0:\n    m(x)\nelse:\n    m(y)\n",
    "FSDP that does not shard": (
        "m = FSDP(net, sharding_strategy=ShardingStrategy.NO_SHARD)\nif rank == 0:\n    m(x)\n"
    ),
    "FSDP of a strategy that nobody knows": "m = FSDP(net, sharding_strategy=s)\nif rank == 0:\n    m(x)\n",
    "FSDP of a group": "m = FSDP(net, process_group=g)\nif rank == 0:\n    m(x)\n",
    "FSDP of a group in its place": "m = FSDP(net, g)\nif rank == 0:\n    m(x)\n",
    "FSDP or not": "m = net\nif wanted:\n    m = FSDP(net)\nif rank == 0:\n    m(x)\n",
    "FSDP 2 of a mesh": "m = Net()\nfully_shard(m, mesh=mesh)\nif rank == 0:\n    m(x)\n",
    "FSDP 2 where it is wanted": "m = Net()\nif wanted:\n    fully_shard(m)\nif rank == 0:\n    m(x)\n",
    "another model than the sharded one": "m = Net()\nfully_shard(m)\no = Net()\nif rank == 0:\n    o(x)\n",
    "the bare model of DDP": "m = DDP(Net())\ntrain(m)\nif rank == 0:\n    evaluate(m.module)\n",
    "the bare model before DDP": "net = Net()\nm = DDP(net)\ntrain(m)\nif rank == 0:\n    evaluate(net)\n",
    "DDP with buffers, whose one broadcast meets that of the next epoch": (
        "m = DDP(Net())\nfor epoch in range(3):\n    train(m)\n    if rank == 0:\n        evaluate(m)\n"
    ),
    "DDP without buffers": "m = DDP(Plain())\ntrain(m)\nif rank == 0:\n    evaluate(m)\n",
    "a bare model beside a sharded one": "m = FSDP(net)\nif rank == 0:\n    evaluate(teacher)\n",
}


def _lines(folder: Path, text: str) -> list[int]:
    (folder / "train.py").write_text(START + text, "utf-8")
    program = read_program(folder / "train.py")
    assert isinstance(program, Program)
    return [each.location.line for each in collectives_are_run_by_every_rank(program) if each.location]


@pytest.mark.parametrize("name", FOUND)
def test_a_forward_pass_of_some_ranks_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    text = FOUND[name]
    guard = next(n for n, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if rank"))
    (line,) = _lines(tmp_path, text)
    assert line == START.count("\n") + guard + 1


@pytest.mark.parametrize("name", SILENT)
def test_a_forward_pass_that_waits_for_nobody_is_silent(tmp_path: Path, name: str) -> None:
    assert _lines(tmp_path, SILENT[name]) == []


def test_the_finding_says_why_the_forward_pass_waits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(START + FOUND["FSDP evaluated on rank 0"], "utf-8")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    (found,) = collectives_are_run_by_every_rank(program)
    assert "evaluate, which runs forward, in which FSDP gathers the shards of all ranks," in found.message
    assert "each on its part of the data" in found.remedy
