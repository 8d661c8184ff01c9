"""Places in a file, and the names of what stands there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from launcher.program.index import FileIndex, ancestors, scope_of, statement_of
from launcher.program.program import read_source
from tests.program.conftest import ReadProgram


def index(text: str) -> FileIndex:
    read = read_source(text.encode(), Path("x.py"))
    assert isinstance(read, FileIndex)
    return read


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("look(1)", (1, 8)),
        ("x = look(1)", (5, 12)),
        ("'ä'; look('ü')", (6, 15)),
        ("\tlook(1)".replace("\t", "if 1:\tlook(1)")[:13], (7, 14)),
    ],
)
def test_columns_count_characters_from_one(text: str, columns: tuple[int, int]) -> None:
    file = index(text)
    place = file.location(file.calls_of["look"][0])
    assert (place.line, place.column, place.end_column) == (1, *columns)


def test_a_place_has_its_end() -> None:
    file = index("look(\n    1,\n)\n")
    place = file.location(file.calls[0])
    assert (place.line, place.end_line, place.end_column) == (1, 3, 2)


def test_a_node_knows_its_function_and_statement() -> None:
    file = index("def f(a=look(1)):\n    x = [look(2) for _ in a]\n")
    default, inner = file.calls
    assert scope_of(default).function is None
    assert scope_of(inner).function is file.scopes[file.functions[0]]
    assert statement_of(inner) is file.functions[0].body[0]
    assert list(ancestors(inner))[-1] is file.tree


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import torch.distributed as dist\nlook(dist.barrier)", "torch.distributed.barrier"),
        ("import torch\nlook(torch.distributed.barrier)", "torch.distributed.barrier"),
        ("from torch import distributed\nlook(distributed.barrier)", "torch.distributed.barrier"),
        ("from torch.distributed import barrier as wait\nlook(wait)", "torch.distributed.barrier"),
        ("from torch.distributed import *\nlook(barrier)", "torch.distributed.barrier"),
        ("import torch\nd = torch.distributed\nlook(d.barrier)", "torch.distributed.barrier"),
        (
            "from torch.utils.data.distributed import DistributedSampler as S\ns = S(x)\nlook(s.set_epoch)",
            "torch.utils.data.DistributedSampler.set_epoch",
        ),
        ("import pytorch_lightning as pl\nt = pl.Trainer()\nlook(t.fit)", "lightning.pytorch.Trainer.fit"),
        (
            "try:\n    import horovod.torch as h\nexcept ImportError:\n    h = None\nlook(h.rank)",
            "horovod.torch.rank",
        ),
        ("from mpi4py import MPI\nc = MPI.COMM_WORLD\nlook(c.bcast)", "mpi4py.MPI.COMM_WORLD.bcast"),
        (
            "class A:\n    def __init__(self):\n        import torch\n        self.t = torch\n"
            "    def f(self):\n        look(self.t.save)",
            "torch.save",
        ),
        (
            "from accelerate import Accelerator\ndef f(a: Accelerator):\n    look(a.gather)",
            "accelerate.Accelerator.gather",
        ),
        (
            "from accelerate import Accelerator\ndef f(a):\n    look(a.gather)\nf(Accelerator())",
            "accelerate.Accelerator.gather",
        ),
        ("look(sorted)", "sorted"),
        ("dist = Other()\nlook(dist.barrier)", None),
        ("import torch.distributed as dist\ndist = fake()\nlook(dist.barrier)", None),
        ("def barrier(): ...\nlook(barrier)", None),
        ("def f(barrier):\n    look(barrier)", None),
    ],
)
def test_a_thing_of_a_library_has_one_name(program: ReadProgram, text: str, name: str | None) -> None:
    read = program(text)
    (call,) = read.entry.calls_of["look"]
    assert read.qualified(call.args[0]) == name


def test_a_name_is_followed_through_the_programs_own_modules(program: ReadProgram) -> None:
    read = program(
        "from helpers import wait\nfrom pack import *\nwait()\nd.barrier()\n",
        **{
            "helpers.py": "from torch.distributed import barrier as wait\n",
            "pack/__init__.py": "import torch.distributed as d\n",
        },
    )
    assert [name for _, name in read.calls("torch.distributed.barrier")] == ["torch.distributed.barrier"] * 2


def test_a_name_is_followed_through_modules_that_import_each_other_with_a_star(program: ReadProgram) -> None:
    read = program(
        "from models import *\nwait()\n",
        **{
            "models/__init__.py": "from .other import *\nfrom .waiting import *\n",
            "models/other.py": "from models import *\n",
            "models/waiting.py": "from torch.distributed import barrier as wait\n",
        },
    )
    assert [name for _, name in read.calls("torch.distributed.barrier")] == ["torch.distributed.barrier"]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("x = look(1)", "look(1)"),
        ("'ä'; look('ü')", "look('ü')"),
        ("x = look(\r\n    1,\r\n    2)", "look( 1, 2)"),
        ("x = look('" + "a" * 100 + "')", "look('" + "a" * 71 + "..."),
    ],
)
def test_an_expression_is_shown_in_one_line_as_it_is_written(text: str, written: str) -> None:
    file = index(text)
    assert file.source(file.calls_of["look"][0]) == written


def test_calls_are_found_by_the_parameter_that_they_give() -> None:
    file = index("a(x, download=True)\nb(download)\nc(**options)\nd(root=x, download=y, **options)\n")
    first, _, third, fourth = file.calls
    assert file.calls_giving("download") == [first, fourth, third]
    assert file.calls_giving("root") == [fourth, third]


def test_nodes_of_a_kind_come_in_the_order_of_the_source_also_when_calls_were_written_anew() -> None:
    file = index("if a:\n    f(1)\n    if b:\n        f(2)\nf(3)\nif c:\n    pass\n")
    walked = [each.lineno for each in file.nodes(ast.If)]
    assert walked == [1, 3, 6]
    file.forget_what_is_called()
    assert [each.lineno for each in file.nodes(ast.If)] == walked
    assert [each.value for each in file.nodes(ast.Constant)] == [1, 2, 3]
