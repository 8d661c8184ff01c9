"""Ranks and world sizes are known by where they come from, never by their names."""

from __future__ import annotations

import pytest

from launcher.program.values import Constant, Nothing, RankKind, RankValue, WorldSize
from tests.program.conftest import ValueOf

GLOBAL, LOCAL, NODE, COORDINATE = RankKind.GLOBAL, RankKind.LOCAL, RankKind.NODE, RankKind.COORDINATE

START = "import os, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"

RANKS = [
    ("look(dist.get_rank())", GLOBAL),
    ("look(dist.get_rank(group))", COORDINATE),
    ("look(torch.distributed.get_node_local_rank())", LOCAL),
    ("import deepspeed\nlook(deepspeed.comm.get_rank())", GLOBAL),
    ("import smdistributed.modelparallel.torch as smp\nlook(smp.rank())", GLOBAL),
    ("import smdistributed.modelparallel.torch as smp\nlook(smp.rdp_rank())", COORDINATE),
    ("import smdistributed.dataparallel.torch.distributed as dist\nlook(dist.get_local_rank())", LOCAL),
    ("import horovod.torch as hvd\nlook(hvd.rank())", GLOBAL),
    ("import horovod.torch as hvd\nlook(hvd.cross_rank())", NODE),
    ("import torch_xla.core.xla_model as xm\nlook(xm.get_ordinal())", GLOBAL),
    ("from mpi4py import MPI\ncomm = MPI.COMM_WORLD\nlook(comm.Get_rank())", GLOBAL),
    ("from mpi4py import MPI\nlook(MPI.COMM_WORLD.rank)", GLOBAL),
    ("from accelerate import Accelerator\na = Accelerator()\nlook(a.process_index)", GLOBAL),
    ("from accelerate import PartialState\nlook(PartialState().local_process_index)", LOCAL),
    ("from lightning.fabric import Fabric\nf = Fabric()\nlook(f.global_rank)", GLOBAL),
    (
        "import pytorch_lightning as pl\nclass M(pl.LightningModule):\n def f(self):\n"
        "  look(self.global_rank)",
        GLOBAL,
    ),
    ("look(int(os.environ['RANK']))", GLOBAL),
    ("look(int(os.environ.get('LOCAL_RANK', -1)))", LOCAL),
    ("from os import getenv\nlook(getenv('SLURM_NODEID'))", NODE),
    ("from os import environ as e\nlook(e['OMPI_COMM_WORLD_RANK'])", GLOBAL),
    # Through fields of dataclasses and named tuples, dictionaries, namespaces, partial applications.
    (
        "from dataclasses import dataclass\n@dataclass\nclass C:\n size: int\n rank: int = 0\n"
        "look(C(2, int(os.environ['RANK'])).rank)",
        GLOBAL,
    ),
    (
        "from dataclasses import dataclass, field\n@dataclass\nclass C:\n"
        " rank: int = field(default_factory=lambda: int(os.environ['RANK']))\nlook(C().rank)",
        GLOBAL,
    ),
    (
        "from typing import NamedTuple\nclass C(NamedTuple):\n rank: int\n"
        " @classmethod\n def read(cls):\n  return cls(rank=dist.get_rank())\nlook(C.read().rank)",
        GLOBAL,
    ),
    ("c = {'size': 2, 'rank': dist.get_rank()}\nlook(c['rank'])", GLOBAL),
    ("c = dict(rank=dist.get_rank())\nlook(c.get('rank', 0))", GLOBAL),
    ("c = {}\nc['rank'] = dist.get_rank()\nlook(c['rank'])", GLOBAL),
    ("from types import SimpleNamespace\nlook(SimpleNamespace(rank=dist.get_rank()).rank)", GLOBAL),
    ("look({**os.environ, 'A': '1'}['LOCAL_RANK'])", LOCAL),
    (
        "p = make()\np.add_argument('--rank', default=int(os.environ['RANK']))\nlook(p.parse_args().rank)",
        GLOBAL,
    ),
    ("from functools import partial\nr = partial(os.environ.get, 'RANK')\nlook(int(r()))", GLOBAL),
    (
        "from functools import partial\ndef f(value):\n look(value)\n"
        "options = {'value': dist.get_rank()}\nf(**options)",
        GLOBAL,
    ),
    (
        "from contextlib import contextmanager\n@contextmanager\ndef group():\n yield dist.get_rank()\n"
        "with group() as rank:\n look(rank)",
        GLOBAL,
    ),
    (
        "class Group:\n def __init__(self):\n  self.rank = dist.get_rank()\n"
        " def __enter__(self):\n  return self\nwith Group() as group:\n look(group.rank)",
        GLOBAL,
    ),
    # Through assignments, attributes, results.
    ("rank, size = dist.get_rank(), dist.get_world_size()\nlook(rank)", GLOBAL),
    ("if x:\n r = dist.get_rank()\nelse:\n r = 0\nlook(r)", GLOBAL),
    ("look(dist.get_rank() if x else 0)", GLOBAL),
    ("def f():\n if x:\n  return 0\n return dist.get_rank()\nlook(f())", GLOBAL),
    ("def f():\n return int(os.environ['RANK']), 1\nr, n = f()\nlook(r)", GLOBAL),
    ("def f():\n if x:\n  return 0, 1\n return dist.get_rank(), 2\nr, n = f()\nlook(r)", GLOBAL),
    (
        "def f():\n if x:\n  return 0, 1\n if y:\n  return int(os.environ['RANK']), 2\n"
        " return dist.get_rank(), 2\nlook(f()[0])",
        GLOBAL,
    ),
    ("R = None\ndef f():\n global R\n R = int(os.environ['RANK'])\nf()\nlook(R)", GLOBAL),
    ("args = parse()\nargs.rank = int(os.environ['RANK'])\ndef f(args):\n look(args.rank)\nf(args)", GLOBAL),
    (
        "args = parse()\nargs.rank = int(os.environ['RANK'])\nargs.rank = args.rank * n + gpu\n"
        "look(args.rank)",
        GLOBAL,
    ),
    (
        "p = make()\np.add_argument('--local_rank', type=int)\nargs = p.parse_args()\nlook(args.local_rank)",
        LOCAL,
    ),
    ("args = f()\ndist.init_process_group('nccl', rank=args.rank)\nlook(args.rank)", GLOBAL),
    (
        "class T:\n def __init__(self):\n  self.rank = dist.get_rank()\n def f(self):\n  look(self.rank)",
        GLOBAL,
    ),
    (
        "class B:\n def __init__(self, rank):\n  self.rank = rank\nclass T(B):\n"
        " def f(self):\n  look(self.rank)\nT(dist.get_rank()).f()\nB(dist.get_rank())",
        GLOBAL,
    ),
    (
        "class T:\n def __init__(self, rank):\n  self.rank = rank\n def f(self):\n"
        "  look(self.rank)\nT(dist.get_rank()).f()",
        GLOBAL,
    ),
    ("class T:\n @property\n def rank(self):\n  return dist.get_rank()\nlook(T().rank)", GLOBAL),
    # Through arguments.
    ("def f(a, r=0):\n look(r)\nf(1, r=int(os.environ['RANK']))\nf(2)", GLOBAL),
    ("def f(i, n):\n look(i)\nmp.spawn(f, args=(2,), nprocs=2)", LOCAL),
    ("def f(i, n):\n g(i)\ndef g(x):\n look(x)\nmp.spawn(f, args=(2,))", LOCAL),
    (
        "from torch.multiprocessing import Process\ndef f(r, n):\n look(r)\nfor i in range(4):\n"
        " Process(target=f, args=(i, 4)).start()",
        LOCAL,
    ),
    ("def run(r):\n look(r)\ndef start(fn):\n fn(int(os.environ['RANK']))\nstart(run)", GLOBAL),
]


@pytest.mark.parametrize(("text", "kind"), RANKS)
def test_a_rank_is_known_by_where_it_comes_from(value_of: ValueOf, text: str, kind: RankKind) -> None:
    found = value_of(START + text)
    assert (found.kind if isinstance(found, RankValue) else found) is kind


@pytest.mark.parametrize(
    "text",
    [
        "rank = 1e20\nlook(rank)",
        "for rank in range(10):\n look(rank)",
        "def f(rank):\n look(rank)",
        "def f(rank):\n look(rank)\nf(position(1))",
        "def f(local_rank):\n look(local_rank)\nrun(f)",
        "r = dist.get_rank()\nr = position()\nlook(r)",
        "def f(r):\n look(r)\nf(dist.get_rank())\nf(position())",
        "def f(*r):\n look(r)\nf(dist.get_rank())",
        "class B:\n def __init__(self, rank):\n  self.rank = rank\n"
        "class T(B):\n def __init__(self):\n  super().__init__(position())\n"
        "B(dist.get_rank())\nlook(T().rank)",
        "args = parse()\nlook(args.rank)",
        "args = parse()\nargs.rank = 3\nother = parse()\nlook(other.rank)",
        "metrics.rank = compute()\nlook(metrics.rank)",
        "look(os.environ['LOSS_RANK'])",
        "rank = torch.linalg.matrix_rank(x)\nlook(rank)",
        "def get_rank():\n return table[1]\nlook(get_rank())",
        "class dist:\n @staticmethod\n def get_rank():\n  return index\nlook(dist.get_rank())",
    ],
)
def test_a_name_alone_is_no_rank(value_of: ValueOf, text: str) -> None:
    assert not isinstance(value_of(START + text), RankValue)


def test_what_is_calculated_from_a_rank_differs_and_is_none(value_of: ValueOf) -> None:
    found = value_of("import os\nlook(42 + int(os.environ['RANK']))")
    assert found == RankValue(RankKind.DERIVED, "RANK")


def test_world_sizes_and_literals_are_known(value_of: ValueOf) -> None:
    assert value_of("import os\nlook(int(os.environ['WORLD_SIZE']))") == WorldSize("WORLD_SIZE")
    assert value_of("import os\nn = int(os.getenv('WORLD_SIZE', 1)) // 8\nlook(n)") == WorldSize("WORLD_SIZE")
    assert value_of("look(-1)") == Constant(-1)


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n global rank\n look(rank)\nf()",
        # Python refuses this, the grammar does not.
        "def f():\n from apex import amp\n global amp\n look(amp)\nf()",
    ],
)
def test_what_is_said_to_be_global_and_bound_nowhere_is_unknown(value_of: ValueOf, text: str) -> None:
    assert value_of(text) is Nothing.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "n = 0\nfor x in y:\n n += f(x)\nlook(n)",
        "class A:\n def __init__(self):\n  self.n = 0\n def f(self):\n  self.n += 1\n  look(self.n)",
    ],
)
def test_a_number_that_is_changed_is_not_the_one_that_it_began_with(value_of: ValueOf, text: str) -> None:
    assert value_of(text) is Nothing.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n return g(x)\ndef g(x):\n return f(x)\nlook(f(1))",
        "def f(x):\n look(x)\n f(x)",
        "a = b\nb = a\nlook(a)",
        "class A:\n def f(self):\n  self.x = self.x\n  look(self.x)",
        "class A(A): ...\nlook(A().x)",
        "x = " + "(" * 90 + "y" + ")" * 90 + "\nlook(x)",
        "look(x" + ".a" * 500 + ")",
        "look(x" + "()" * 500 + ")",
        "\n".join(f"a{n} = a{n + 1}" for n in range(500)) + "\nlook(a0)",
        "\n".join(f"def f{n}():\n return f{n + 1}()" for n in range(500)) + "\nlook(f0())",
    ],
)
def test_what_turns_in_circles_or_goes_deep_is_unknown(value_of: ValueOf, text: str) -> None:
    assert not isinstance(value_of(text), RankValue)


def test_a_library_whose_source_is_in_the_program_is_known_by_its_name(value_of: ValueOf) -> None:
    source = {"accelerate/__init__.py": "from .accelerator import Accelerator\n"}
    source["accelerate/accelerator.py"] = (
        "class Accelerator:\n    @property\n    def process_index(self):\n"
        "        return self.state.number()\n"
    )
    for module in ("accelerate", "accelerate.accelerator"):
        text = f"from {module} import Accelerator\na = Accelerator()\nlook(a.process_index)"
        found = value_of(text, **source)
        assert isinstance(found, RankValue) and found.kind is GLOBAL
