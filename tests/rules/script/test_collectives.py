"""Collectives and steps that not every rank runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.program.program import Program, read_program
from launcher.rules.script import collectives
from launcher.rules.script.check import check_program
from launcher.rules.script.collectives import (
    collectives_are_run_by_every_rank,
    no_collectives_in_exception_handlers,
)
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

Check = Callable[[str], list[tuple[str, int]]]

START = """\
import sys, torch
import torch.distributed as dist
from contextlib import contextmanager
rank, local_rank, world_size = dist.get_rank(), dist.get_node_local_rank(), dist.get_world_size()
"""


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The code and line of each finding; line 1 is the first of the text."""

    def checked(text: str) -> list[tuple[str, int]]:
        (tmp_path / "train.py").write_text(START + text, "utf-8")
        program = read_program(tmp_path / "train.py")
        assert isinstance(program, Program)
        offset = START.count("\n")
        places = [(found.code, found.location) for found in check_program(program)]
        return [(code, place.line - offset) for code, place in places if place is not None]

    return checked


WRONG = {
    "a barrier of rank 0 alone": ("if rank == 0:\n    dist.barrier()\n", [("DDP004", 2)]),
    "in the else arm": ("if rank == 0:\n    print(1)\nelse:\n    dist.broadcast(x, 0)\n", [("DDP004", 4)]),
    "deeper within the guard": (
        "if rank == 0:\n    for b in data:\n        with torch.no_grad():\n            dist.all_reduce(b)\n",
        [("DDP004", 4)],
    ),
    "under another condition too": (
        "if rank == 0 and step % 10 == 0:\n    dist.barrier()\n",
        [("DDP004", 2)],
    ),
    "with a further condition inside": (
        "if rank == 0:\n    if step:\n        dist.barrier()\n",
        [("DDP004", 3)],
    ),
    "local rank": ("if local_rank == 0:\n    dist.barrier()\n", [("DDP004", 2)]),
    "in a helper": ("def wait():\n    dist.barrier()\nif rank == 0:\n    wait()\n", [("DDP004", 4)]),
    "in a helper's helper": (
        "def a():\n    dist.barrier()\ndef b():\n    a()\nif rank == 0:\n    b()\n",
        [("DDP004", 6)],
    ),
    "in a helper, switched on": (
        "def save(wait=False):\n    if wait:\n        dist.barrier()\nif rank == 0:\n    save(wait=True)\n",
        [("DDP004", 5)],
    ),
    "a helper that looks whether it is distributed": (
        "def wait():\n    if not dist.is_initialized():\n        return\n    if dist.get_world_size() == 1:\n"
        "        return\n    dist.barrier()\nif rank == 0:\n    wait()\n",
        [("DDP004", 8)],
    ),
    "the others return before": (
        "def f():\n    if rank != 0:\n        return\n    print(1)\n    dist.barrier()\n",
        [("DDP004", 3)],
    ),
    "the others return from deeper": (
        "def f():\n    if x:\n        if rank != 0:\n            return\n    dist.barrier()\n",
        [("DDP004", 4)],
    ),
    "continue on some ranks": (
        "for b in data:\n    if rank != 0:\n        continue\n    dist.all_reduce(b)\n",
        [("DDP004", 3)],
    ),
    "break on some ranks": (
        "for b in data:\n    dist.all_reduce(b)\n    if rank == 0 and b > 3:\n        break\n",
        [("DDP004", 4)],
    ),
    "exit without an error": ("if rank != 0:\n    sys.exit(0)\ndist.barrier()\n", [("DDP004", 2)]),
    "in an expression": ("x = dist.all_gather(a, b) if rank == 0 else None\n", [("DDP004", 1)]),
    "behind an and": ("rank == 0 and dist.barrier()\n", [("DDP004", 1)]),
    "a method": (
        "class T:\n    def wait(self):\n        dist.barrier()\n    def f(self):\n        if rank == 0:\n"
        "            self.wait()\n",
        [("DDP004", 6)],
    ),
    "for a group of others too": (
        "g = dist.new_group([0, 1])\nif rank == 0:\n    dist.barrier(group=g)\n",
        [("DDP004", 3)],
    ),
    "a decorator's function": (
        "from pytorch_lightning.utilities import rank_zero_only\n@rank_zero_only\ndef f():\n"
        "    dist.barrier()\n",
        [("DDP004", 4)],
    ),
    "a decorator of the program": (
        "def main_only(fn):\n    def inner(*a):\n        if rank == 0:\n            return fn(*a)\n"
        "    return inner\n"
        "@main_only\ndef f():\n    dist.barrier()\n",
        [("DDP004", 8)],
    ),
    "accelerate": (
        "from accelerate import Accelerator\na = Accelerator()\nif a.is_main_process:\n"
        "    a.wait_for_everyone()\n",
        [("DDP004", 4)],
    ),
    "horovod": ("import horovod.torch as hvd\nif hvd.rank() == 0:\n    hvd.allreduce(x)\n", [("DDP004", 3)]),
    "mpi4py": (
        "from mpi4py import MPI\nc = MPI.COMM_WORLD\nif c.Get_rank() == 0:\n    c.bcast(1)\n",
        [("DDP004", 4)],
    ),
    "a backward pass of DDP": (
        "m = torch.nn.parallel.DistributedDataParallel(n)\nfor b in data:\n    if rank == 0 and b is None:\n"
        "        continue\n    out = m(b)\n    loss = f(out)\n    loss.backward()\n",
        [("DDP004", 4)],
    ),
    "FSDP's state_dict": (
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nm = FSDP(net)\n"
        "if rank == 0:\n    torch.save(m.state_dict(), 'x')\n",
        [("CKPT003", 4)],
    ),
    "DCP": (
        "import torch.distributed.checkpoint as dcp\nif rank == 0:\n    dcp.save(s, checkpoint_id='x')\n",
        [("CKPT003", 3)],
    ),
    "DeepSpeed": (
        "import deepspeed\ne, *_ = deepspeed.initialize(model=m)\nif rank == 0:\n"
        "    e.save_checkpoint('x')\n",
        [("CKPT003", 4)],
    ),
    "the checkpoint manager's save": (
        "import slipway\nm = slipway.CheckpointManager()\nif rank == 0:\n    m.save(1, model=net)\n",
        [("CKPT003", 4)],
    ),
    "XLA's save": (
        "import torch_xla.core.xla_model as xm\nif xm.is_master_ordinal():\n    xm.save(s, 'x')\n",
        [("CKPT003", 3)],
    ),
    "SMP's state_dict on rank 0 alone": (
        "import smdistributed.modelparallel.torch as smp\nm = smp.DistributedModel(n)\nif smp.rank() == 0:\n"
        "    torch.save(m.state_dict(), 'x')\n",
        [("CKPT003", 4)],
    ),
    "an except block": ("try:\n    f()\nexcept Exception:\n    dist.barrier()\n", [("DDP008", 4)]),
    "a bare except and a helper": (
        "def wait():\n    dist.barrier()\ntry:\n    f()\nexcept:\n    wait()\n    raise\n",
        [("DDP008", 6)],
    ),
    "one arm, within which an answer is for other ranks": (
        "if rank == 0:\n    dist.barrier()\nelif rank == 1:\n    dist.barrier()\n",
        [("DDP004", 4)],
    ),
    "a finally block": (
        "try:\n    f()\n    dist.all_reduce(x)\nfinally:\n    dist.barrier()\n",
        [("DDP008", 5)],
    ),
    "a finally block behind a helper that reduces": (
        "def f():\n    dist.all_reduce(x)\ntry:\n    f()\nfinally:\n    dist.barrier()\n",
        [("DDP008", 6)],
    ),
    "out of memory": ("try:\n    f()\nexcept RuntimeError:\n    dist.all_reduce(x)\n", [("DDP008", 4)]),
    "a handler under a condition": (
        "try:\n    f()\nexcept Exception as e:\n    if dist.is_initialized():\n        dist.barrier()\n",
        [("DDP008", 5)],
    ),
}

RIGHT = {
    "the checkpoint manager's save and resume by all": (
        "import slipway\nm = slipway.CheckpointManager()\nm.resume(model=net)\nm.save(1, model=net)\n"
    ),
    "a finally block where all meet": "try:\n    open(path)\nfinally:\n    dist.barrier()\n",
    "both arms, the other asked for again": (
        "if rank == 0:\n    dist.gather(x, y)\nelif rank > 0:\n    dist.gather(x)\n"
    ),
    "both arms, the first asked for within": (
        "if rank != 0:\n    dist.gather(x)\nelse:\n    if rank == 0:\n        dist.gather(x, y)\n"
    ),
    "a finally block behind a helper that may reduce": (
        "def f():\n    if flag:\n        dist.all_reduce(x)\ntry:\n    f()\nfinally:\n    dist.barrier()\n"
    ),
    "a failed load that every rank is told of": (
        "from torch.distributed.checkpoint.api import CheckpointException\n"
        "import torch.distributed.checkpoint as dcp\n"
        "try:\n    dcp.load(state)\nexcept CheckpointException:\n    dcp.load(state, planner=planner)\n"
    ),
    "on every rank": "dist.barrier()\n",
    "behind the guard": "if rank == 0:\n    print(1)\ndist.barrier()\n",
    "both arms": "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    dist.broadcast(y, 0)\n",
    "both arms by helpers": (
        "def a():\n    dist.scatter(x, y)\ndef b():\n    dist.scatter(x)\nif rank == 0:\n    a()\n"
        "else:\n    b()\n"
    ),
    "the two-sided barrier": (
        "if rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n"
    ),
    "the two-sided barrier with -1": (
        "if local_rank not in [-1, 0]:\n    dist.barrier()\nload()\nif local_rank == 0:\n    dist.barrier()\n"
    ),
    "the two-sided barrier over a context manager": (
        "@contextmanager\ndef first(r):\n    if r not in (-1, 0):\n        dist.barrier()\n    yield\n"
        "    if r == 0:\n        dist.barrier()\nwith first(local_rank):\n    load()\n"
    ),
    "the same with a constant": (
        "@contextmanager\ndef first(rank):\n    if rank not in (-1, 0):\n        dist.barrier()\n    yield\n"
        "    if rank == 0:\n        dist.barrier()\nif local_rank == 0:\n    with first(rank=-1):\n"
        "        load()\n"
    ),
    "a helper, switched off": (
        "def save(wait=True):\n    if wait:\n        dist.barrier()\nif rank == 0:\n    save(wait=False)\n"
    ),
    "a helper that may or may not": (
        "def save():\n    if wanted:\n        dist.barrier()\nif rank == 0:\n    save()\n"
    ),
    "rank -1 is no rank": "if local_rank != -1:\n    dist.barrier()\n",
    "more than one process": "if world_size > 1:\n    dist.barrier()\n",
    "initialised": "if dist.is_initialized():\n    dist.barrier()\n",
    "a group of the guard's ranks": (
        "g = dist.new_group([0, 1])\nif rank in (0, 1):\n    dist.all_reduce(x, group=g)\n"
    ),
    "a group that nobody knows": "if rank == 0:\n    dist.all_reduce(x, group=g)\n",
    "a group in its place": "if rank == 0:\n    dist.broadcast(x, 0, g)\n",
    "a group by **": "if rank == 0:\n    dist.broadcast(x, 0, **options)\n",
    "point to point": "if rank == 0:\n    dist.send(x, 1)\nelse:\n    dist.recv(x, 0)\n",
    "an exit by exception": "if rank != 0:\n    raise ValueError\ndist.barrier()\n",
    "an exit with an error": "if rank != 0:\n    sys.exit(1)\ndist.barrier()\n",
    "a return on every rank": "def f():\n    if done:\n        return\n    dist.barrier()\n",
    "a return that ran the same before": (
        "def f():\n    if rank != 0:\n        dist.barrier()\n        return\n    load()\n"
        "    dist.barrier()\n"
    ),
    "a return with nothing to come": (
        "def f():\n    if rank != 0:\n        return\n    print(1)\ndef g():\n    f()\n    dist.barrier()\n"
    ),
    "a decision on a reduced value": (
        "flag = torch.tensor(rank == 0)\ndist.all_reduce(flag)\nif flag.item():\n    dist.barrier()\n"
    ),
    "under Join": "with Join([m]):\n    if rank == 0:\n        pass\n    dist.all_reduce(x)\n",
    "a timeout that a test expects": (
        "with self.assertRaisesRegex(RuntimeError, 'Timed out'):\n    if rank == 0:\n        dist.barrier()\n"
        "if rank == 0:\n    with pytest.raises(RuntimeError):\n        dist.barrier()\n"
    ),
    "the two-sided barrier of a rank that nobody knows": (
        "def own():\n    return dist.get_rank() if group is None else dist.get_rank(group=group)\n"
        "@contextmanager\ndef first():\n    if own() > 0:\n        dist.barrier()\n    yield\n"
        "    if own() == 0:\n        if not dist.is_initialized():\n            return\n"
        "        dist.barrier()\n"
    ),
    "a name that is no rank": "def f(rank):\n    if rank == 0:\n        dist.barrier()\nf(metric())\n",
    "an unknown callee in the other arm": "if rank == 0:\n    dist.barrier()\nelse:\n    worker()\n",
    "all ranks or the sharded ones": "if sharded or rank == 0:\n    dist.barrier()\n",
    "one rank after the other": (
        "for r in range(world_size):\n    if r == rank:\n        load()\n    dist.barrier()\n"
    ),
    "a backward pass of a bare model": (
        "m = torch.nn.Linear(1, 1)\nif rank == 0:\n    loss = m(b)\n    loss.backward()\n"
    ),
    "a backward pass under no_sync": (
        "m = torch.nn.parallel.DistributedDataParallel(n)\nwith m.no_sync():\n    if rank == 0:\n"
        "        loss = m(b)\n        loss.backward()\n"
    ),
    "a bare model's state_dict": "if rank == 0:\n    torch.save(model.state_dict(), 'x')\n",
    "DDP's state_dict": (
        "m = torch.nn.parallel.DistributedDataParallel(n)\nif rank == 0:\n"
        "    torch.save(m.state_dict(), 'x')\n"
    ),
    "DCP without the others": (
        "import torch.distributed.checkpoint as dcp\nif rank == 0:\n    dcp.load(s, no_dist=True)\n"
    ),
    "SMP's state_dict as documented": (
        "import smdistributed.modelparallel.torch as smp\nm = smp.DistributedModel(n)\n"
        "if smp.rdp_rank() == 0:\n    torch.save(m.state_dict(), 'x')\n"
    ),
    "somebody else's barrier": "if rank == 0:\n    gate.barrier()\n",
    "a function that is defined under a guard": "if rank == 0:\n    def f():\n        dist.barrier()\n",
    "a handler without collectives": "try:\n    f()\nexcept Exception:\n    dist.destroy_process_group()\n",
    "a handler of what ends alike": "try:\n    f()\nexcept StopIteration:\n    dist.barrier()\n",
    "a try with a barrier in its body": "try:\n    dist.barrier()\nexcept Exception:\n    raise\n",
}


@shows(no_collectives_in_exception_handlers, naming="DDP008", cases=WRONG.values())
@shows(collectives_are_run_by_every_rank, "CKPT003", naming="CKPT003", cases=WRONG.values())
@shows(collectives_are_run_by_every_rank, "DDP004", naming="DDP004", cases=WRONG.values())
@pytest.mark.parametrize("name", WRONG)
def test_a_collective_that_not_every_rank_runs_is_found_at_its_line(check: Check, name: str) -> None:
    text, places = WRONG[name]
    assert check(text) == places


@leaves_alone(no_collectives_in_exception_handlers, naming="except", cases=RIGHT.values())
@leaves_alone(collectives_are_run_by_every_rank, code="DDP004", naming="rank", cases=RIGHT.values())
@pytest.mark.parametrize("name", RIGHT)
def test_what_every_rank_runs_is_silent(check: Check, name: str) -> None:
    assert check(RIGHT[name]) == []


def severities(folder: Path, text: str, name: str = "train.py") -> list[tuple[str, Severity]]:
    (folder / name).write_text(START + text)
    program = read_program(folder / name)
    assert isinstance(program, Program)
    return [(each.code, each.severity) for each in check_program(program) if each.code[:3] == "DDP"]


def test_a_handler_is_an_error_where_the_others_are_in_a_collective(tmp_path: Path) -> None:
    waiting = "try:\n    dist.all_reduce(x)\nexcept Exception:\n    dist.barrier()\n"
    assert severities(tmp_path, waiting) == [("DDP008", Severity.ERROR)]


def test_a_handler_is_informational_where_all_may_fail_alike(tmp_path: Path) -> None:
    alike = "try:\n    state = torch.load(path)\nexcept Exception:\n    dist.barrier()\n"
    assert severities(tmp_path, alike) == [("DDP008", Severity.INFO)]


def test_a_guard_is_informational_where_other_ranks_have_collectives_of_their_own(tmp_path: Path) -> None:
    answered = "if rank == 0:\n    dist.broadcast(x, 0)\nelif rank > 0:\n    dist.all_reduce(x)\n"
    assert ("DDP004", Severity.INFO) in severities(tmp_path, answered)
    assert ("DDP004", Severity.ERROR) not in severities(tmp_path, answered)


def test_a_guard_is_informational_where_the_others_come_to_the_same_behind_its_return(tmp_path: Path) -> None:
    behind = (
        "def f(alone):\n    if alone:\n        if rank != 0:\n"
        "            dist.barrier()\n            return\n    load()\n    dist.{}()\nf(args.alone)\n"
    )
    assert severities(tmp_path, behind.format("barrier")) == [("DDP004", Severity.INFO)]
    found = severities(tmp_path, behind.format("destroy_process_group"))
    assert found == [("DDP004", Severity.ERROR)]


def test_a_guard_is_an_error_where_the_others_only_pass_by(tmp_path: Path) -> None:
    alone = "if rank == 0:\n    dist.broadcast(x, 0)\nelse:\n    print(x)\n"
    assert severities(tmp_path, alone) == [("DDP004", Severity.ERROR)]


def test_the_finding_names_the_helper_as_a_note(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(START + "from tools import save\nif rank == 0:\n    save(1)\n")
    (tmp_path / "tools.py").write_text("import torch.distributed as d\ndef save(x):\n    d.barrier()\n")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    (found,) = check_program(program)
    shape = found.to_json()
    assert shape["location"] == {
        "file": str(tmp_path / "train.py"),
        "line": 7,
        "column": 5,
        "end_line": 7,
        "end_column": 12,
    }
    guard, origin = shape["related"]
    assert (guard["line"], guard["message"]) == (6, "under `rank == 0`")
    assert (origin["file"], origin["line"]) == (str(tmp_path / "tools.py"), 3)
    assert "rank 0 alone" in found.message


def test_a_barrier_in_a_file_that_nobody_imports_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(START)
    (tmp_path / "other.py").write_text(START + "if rank == 0:\n    dist.barrier()\n")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    assert check_program(program) == []


START_wrapped_forward = """\
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
    (folder / "train.py").write_text(START_wrapped_forward + text, "utf-8")
    program = read_program(folder / "train.py")
    assert isinstance(program, Program)
    return [each.location.line for each in collectives_are_run_by_every_rank(program) if each.location]


@pytest.mark.parametrize("name", FOUND)
def test_a_forward_pass_of_some_ranks_is_found_at_its_line(tmp_path: Path, name: str) -> None:
    text = FOUND[name]
    guard = next(n for n, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("if rank"))
    (line,) = _lines(tmp_path, text)
    assert line == START_wrapped_forward.count("\n") + guard + 1


@pytest.mark.parametrize("name", SILENT)
def test_a_forward_pass_that_waits_for_nobody_is_silent(tmp_path: Path, name: str) -> None:
    assert _lines(tmp_path, SILENT[name]) == []


def test_the_finding_says_why_the_forward_pass_waits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(START_wrapped_forward + FOUND["FSDP evaluated on rank 0"], "utf-8")
    program = read_program(tmp_path / "train.py")
    assert isinstance(program, Program)
    (found,) = collectives_are_run_by_every_rank(program)
    assert "evaluate, which runs forward, in which FSDP gathers the shards of all ranks," in found.message
    assert "each on its part of the data" in found.remedy


__all__ = ["program"]

START_steps = """
import math, sys, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def reduce_copy(tensor):
    copy = tensor.clone()
    dist.all_reduce(copy)
    return copy
def reduce_in_place(tensor):
    dist.all_reduce(tensor)
    return tensor.clone()
rank = dist.get_rank()
model = torch.nn.Linear(1, 1)
model = DistributedDataParallel(model)
begun = time.time()
for batch in data:
    loss = model(batch).sum()
"""
END = "\n    loss.backward()\n"


def judge(program: ReadProgram, text: str) -> list[Finding]:
    read = program(text)
    return [
        finding for rule in (*collectives.STEP_RULES, *collectives.MEMORY_RULES) for finding in rule(read)
    ]


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@shows(collectives.ranks_skip_steps_together)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("if torch.isnan(loss):\n    continue", "this rank's own"),
        ("if not torch.isfinite(loss).all():\n    print(loss)\n    continue", "this rank's own"),
        ("if not math.isfinite(loss.item()):\n    break", "this rank's own"),
        ("value = loss.item()\nif math.isnan(value):\n    continue", "this rank's own"),
        ("bad = torch.isnan(loss)\nif bad:\n    continue", "this rank's own"),
        ("if loss.isnan():\n    continue", "this rank's own"),
        ("torch.cuda.synchronize()\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("dist.all_reduce(torch.ones(1))\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("shown = reduce_copy(loss)\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("if time.time() - begun > 3600:\n    break", "clocks"),
        ("spent = time.time() - begun\nif spent > 3600:\n    break", "clocks"),
        ("if batch and time.monotonic() > 9:\n    break", "clocks"),
    ],
)
def test_a_step_that_one_rank_skips_is_found(program: ReadProgram, text: str, why: str) -> None:
    (finding,) = judge(program, START_steps + indented(text) + END)
    assert finding.code == "DDP007"
    assert why in finding.message


@pytest.mark.parametrize(
    ("library", "found"), [("accelerate.Accelerator", 1), ("lightning.fabric.Fabric", 1), ("mine.Engine", 0)]
)
def test_a_librarys_backward_is_one_of_a_wrapped_model(
    program: ReadProgram, library: str, found: int
) -> None:
    module, _, name = library.rpartition(".")
    text = (
        f"import torch\nfrom {module} import {name}\nlib = {name}()\nmodel = lib.prepare(make())\n"
        "for batch in data:\n    loss = model(batch)\n    if torch.isnan(loss):\n        continue\n"
        "    lib.backward(loss)\n"
    )
    assert len(judge(program, text)) == found


@leaves_alone(collectives.ranks_skip_steps_together)
@pytest.mark.parametrize(
    "text",
    [
        "if torch.isnan(loss):\n    sys.exit(1)",
        "if torch.isnan(loss):\n    raise ValueError",
        "if torch.isnan(loss):\n    print('nan')",
        "dist.all_reduce(loss)\nif torch.isnan(loss):\n    continue",
        "bad = torch.isnan(loss)\ndist.all_reduce(bad)\nif bad:\n    continue",
        "mean = reduce_mean(loss)\nif math.isnan(mean):\n    continue",
        "loss = reduce_copy(loss)\nif torch.isnan(loss):\n    continue",
        "shown = reduce_in_place(loss)\nif torch.isnan(loss):\n    continue",
        "shown = reduced(loss)\nif torch.isnan(loss):\n    continue",
        "if step >= 10:\n    break",
        "if torch.isnan(batch).any():\n    print(1)",
        "spent = time.time() - begun\nif rank == 0:\n    print(spent)",
        "loss.backward()\nnorm = clip(model)\nif not math.isfinite(norm):\n    break",
    ],
)
def test_a_step_that_all_skip_or_none_is_right(program: ReadProgram, text: str) -> None:
    end = "" if "backward" in text else END
    assert judge(program, START_steps + indented(text) + end) == []


@pytest.mark.parametrize(
    ("wrapping", "found"),
    [
        ("fully_shard(model)", 1),
        ("fully_shard(model, reshard_after_forward=True)", 1),
        ("fully_shard(model, mesh=mesh)", 0),  # Of which ranks nobody can tell.
        ("fully_shard(other)", 0),
    ],
)
def test_a_model_that_was_sharded_in_place_is_wrapped(
    program: ReadProgram, wrapping: str, found: int
) -> None:
    start = START_steps.replace(
        "torch.nn.parallel import DistributedDataParallel", "torch.distributed.fsdp import fully_shard"
    )
    start = start.replace("model = DistributedDataParallel(model)", wrapping)
    text = start + indented("if torch.isnan(loss):\n    continue") + END
    assert len(judge(program, text)) == found


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("loss = model.forward(batch).sum()", 1),
        ("loss = diffusion.losses(model, batch)['loss'].mean()", 1),
        ("losses = criterion(batch, net=model)\nloss = losses.sum()", 1),
        ("loss = criterion(model.module, batch)", 0),
        ("loss = other(batch)\nshow(model)", 0),
        ("loss = other.forward(batch)", 0),
    ],
)
def test_a_wrapped_model_runs_where_it_is_called_or_makes_the_loss(
    program: ReadProgram, made: str, found: int
) -> None:
    text = START_steps.replace("    loss = model(batch).sum()\n", indented(made))
    assert len(judge(program, text + indented("if torch.isnan(loss):\n    continue") + END)) == found


def test_a_model_with_synchronised_statistics_is_nothing_that_ranks_agree_on(program: ReadProgram) -> None:
    converted = (
        "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel = DistributedDataParallel"
    )
    text = START_steps.replace("model = DistributedDataParallel", converted)
    assert len(judge(program, text + indented("if torch.isnan(loss):\n    continue") + END)) == 1


def test_a_bare_model_skips_what_it_likes(program: ReadProgram) -> None:
    text = (START_steps + indented("if torch.isnan(loss):\n    continue") + END).replace(
        "model = DistributedDataParallel(model)\n", ""
    )
    assert judge(program, text) == []


TRY = START_steps.replace("    loss = model(batch).sum()\n", "    try:\n        model(batch).backward()\n")


@shows(collectives.exhausted_memory_ends_the_process)
@pytest.mark.parametrize(
    "handler",
    [
        "except torch.cuda.OutOfMemoryError:\n    continue",
        "except torch.OutOfMemoryError as error:\n    torch.cuda.empty_cache()",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        continue\n    raise",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        1\n    else:\n        raise",
        "except (torch.cuda.OutOfMemoryError, ValueError):\n    pass",
    ],
)
def test_going_on_with_exhausted_memory_is_found(program: ReadProgram, handler: str) -> None:
    (finding,) = judge(program, TRY + indented(handler))
    assert finding.code == "DDP007"
    assert "memory is exhausted" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    loss = model(batch)\nexcept RuntimeError as e:\n    if 'out of memory' in str(e):\n"
        "        torch.cuda.empty_cache()\n        loss = model(batch[:1])",
        "def train_epoch():\n    for batch in data:\n        model(batch).backward()\nfor epoch in range(9):"
        "\n    try:\n        train_epoch()\n    except RuntimeError as e:"
        "\n        if 'out of memory' in str(e):\n"
        "            smaller()\n            continue\n        raise",
    ],
)
def test_a_retry_of_one_rank_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, START_steps.partition("for batch")[0] + text)
    assert "memory is exhausted" in finding.message


@leaves_alone(collectives.exhausted_memory_ends_the_process)
@pytest.mark.parametrize(
    "handler",
    [
        "except torch.cuda.OutOfMemoryError:\n    raise",
        "except torch.cuda.OutOfMemoryError:\n    sys.exit(1)",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        print('smaller')\n    raise",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        raise ValueError from e",
        "except ValueError:\n    continue",
        "except RuntimeError:\n    continue",
        "except KeyboardInterrupt:\n    break",
        "except torch.cuda.OutOfMemoryError:\n    dist.all_reduce(flag)\n    continue",
    ],
)
def test_ending_with_exhausted_memory_is_right(program: ReadProgram, handler: str) -> None:
    assert judge(program, TRY + indented(handler)) == []


@shows(collectives.ranks_run_equally_many_steps)
@pytest.mark.parametrize("count", ["rank", "rank + 1", "2 * rank", "0, rank", "int(dist.get_rank())"])
def test_a_number_of_steps_that_differs_by_rank_is_found(program: ReadProgram, count: str) -> None:
    text = START_steps.replace("for batch in data:", f"for batch in range({count}):") + END
    (finding,) = judge(program, text)
    assert finding.subject == f"range({count})"


@leaves_alone(collectives.ranks_run_equally_many_steps)
@pytest.mark.parametrize(
    "loop",
    [
        "for batch in range(10):",
        "for batch in range(len(data)):",
        "for batch in range(dist.get_world_size()):",
        "for batch in range(rank, 10 + rank):",
        "for batch in range(count):",
        "for batch in range(args.steps):",
        "for batch in enumerate(data):",
        "for batch in data[rank:]:",
    ],
)
def test_a_number_of_steps_that_ranks_share_or_nobody_knows_is_right(program: ReadProgram, loop: str) -> None:
    assert judge(program, START_steps.replace("for batch in data:", loop) + END) == []


def test_uneven_steps_under_join_are_right(program: ReadProgram) -> None:
    text = START_steps.replace("for batch in data:", "with model.join():\n  for batch in range(rank):") + END
    assert judge(program, text) == []


@shows(collectives.every_rank_stays_in_the_loop)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("if rank == 0:\n    break\nloss.backward()", "rank 0 may leave"),
        ("loss.backward()\nif rank == 0 and loss < 1:\n    break", "rank 0 may leave"),
        ("if rank > 0:\n    continue\nloss.backward()", "every rank but 0 may leave"),
    ],
)
def test_a_wrapped_model_that_some_ranks_train_alone_is_found(
    program: ReadProgram, text: str, message: str
) -> None:
    (finding,) = judge(program, START_steps + indented(text))
    assert finding.code == "DDP004"
    assert message in finding.message


@leaves_alone(collectives.every_rank_stays_in_the_loop)
@pytest.mark.parametrize(
    "text",
    [
        "loss.backward()\nif rank == 0:\n    print(loss)",
        "loss.backward()\nif rank == 0:\n    for name in names:\n        break",
        "if rank == 0:\n    model(batch).backward()\nelse:\n    model(2 * batch).backward()",
        "loss.backward()\nif rank != -1:\n    break",
        "loss.backward()\nif step > 10:\n    break",
        "loss.backward()\nif rank == 0:\n    model(batch)",
        "loss.backward()\nif dist.get_world_size() > 1:\n    break",
        "loss.backward()\nif rank == 0:\n    raise ValueError",
        "if rank % 2 == 0:\n    model(batch).backward()",
        "m = DistributedDataParallel(model, process_group=g)\nif rank == 0:\n    m(batch).backward()",
    ],
)
def test_a_wrapped_model_that_all_ranks_train_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, START_steps + indented(text)) == []
