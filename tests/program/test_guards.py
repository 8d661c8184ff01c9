"""A guard is true on some ranks and false on others; what all ranks answer alike is none."""

from __future__ import annotations

import ast

import pytest

from launcher.program.guards import Guard, Guards, Truth
from tests.program.conftest import ReadProgram

START = """
import os, torch
import torch.distributed as dist
rank = dist.get_rank()
local_rank = int(os.environ.get("LOCAL_RANK", -1))
world_size = dist.get_world_size()
"""


def truth(program: ReadProgram, text: str) -> Truth:
    read = program(START + text)
    (test,) = [node for node in ast.walk(read.entry.tree) if isinstance(node, ast.If) and marked(node)]
    return read.analysis(Guards).truth(test.test)


def marked(node: ast.If) -> bool:
    return ast.unparse(node.body[0]) == "look"


@pytest.mark.parametrize(
    ("test", "ranks"),
    [
        ("rank == 0", "rank 0"),
        ("0 == rank", "rank 0"),
        ("not rank", "rank 0"),
        ("rank", "every rank but 0"),
        ("rank != 0", "every rank but 0"),
        ("rank > 0", "every rank but 0"),
        ("0 < rank", "every rank but 0"),
        ("rank < 1", "rank 0"),
        ("rank < 2", "ranks 0 and 1"),
        ("rank >= 1", "every rank but 0"),
        ("rank in (-1, 0)", "rank 0"),
        ("rank in [0, 1]", "ranks 0 and 1"),
        ("local_rank not in [-1, 0]", "every local rank but 0"),
        ("local_rank <= 0", "local rank 0"),
        ("rank == world_size - 1", "rank the last"),
        ("rank % 8 == 0", "some ranks"),
        ("rank == 0 and step % 100 == 0", "rank 0"),
        ("step % 100 == 0 and not rank != 0", "rank 0"),
        ("dist.is_initialized() and rank == 0", "rank 0"),
        ("not dist.is_initialized() or rank == 0", "rank 0"),
        ("rank == -1 or rank == 0", "rank 0"),
        ("rank == 0 or rank == 1", "ranks 0 and 1"),
        ("(main := rank == 0)", "rank 0"),
        ("(rank == 0) is True", "rank 0"),
        ("True if rank == 0 else False", "rank 0"),
        ("(rank == 0) == False", "every rank but 0"),
        ("os.environ['RANK'] == '0'", "rank 0"),
    ],
)
def test_a_test_of_the_rank_is_a_guard(program: ReadProgram, test: str, ranks: str) -> None:
    found = truth(program, f"if {test}:\n    look\n")
    assert isinstance(found, Guard)
    assert found.described == ranks


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("rank != -1", True),
        ("local_rank != -1", True),
        ("local_rank == -1", False),
        ("rank >= 0", True),
        ("rank > -1", True),
        ("rank < 0", False),
        ("rank < world_size", True),
        ("world_size > 1", True),
        ("world_size == 1", False),
        ("world_size >= 2", True),
        ("1 < world_size", True),
        ("world_size == 8", None),
        ("world_size > 4", None),
        ("dist.is_initialized()", True),
        ("dist.is_available() and dist.is_initialized()", True),
        ("not dist.is_initialized()", False),
        ("local_rank is None", False),
        ("local_rank is not None", True),
        ("'WORLD_SIZE' in os.environ", True),
        ("'RANK' not in os.environ", False),
        ("False and rank == 0", False),
        ("fsdp or rank == 0", None),
        ("step % 100 == 0", None),
        ("rank == step", None),
        ("rank == 0 or not rank == 0 or x", None),
        ("args.rank == 0", None),
        ("other.rank(0) == 0", None),
        ("rank == 0.5", None),
        ("dist.get_backend() == 'nccl'", None),
    ],
)
def test_what_all_ranks_answer_alike_and_what_is_unknown_are_no_guards(
    program: ReadProgram, test: str, expected: Truth
) -> None:
    assert truth(program, f"if {test}:\n    look\n") is expected


GUARDS = [
    "def setup():\n    return 1, dist.get_rank() == 0\n_, main = setup()\nif main:\n    look\n",
    "def setup():\n    return {'lead': dist.get_rank() == 0}\nenv = setup()\nif env['lead']:\n    look\n",
    "match rank:\n    case 0:\n        look\n    case _:\n        pass\n",
    "match (rank, mode):\n    case (0, 'train'):\n        look\n",
    "match rank == 0:\n    case True if step % 10 == 0:\n        look\n",
    "main = rank == 0\nif main:\n    look\n",
    "main = False\nif rank == 0:\n    main = True\nif main:\n    look\n",
    "if world_size > 1:\n    main = rank == 0\nelse:\n    main = True\nif main:\n    look\n",
    "def is_main():\n    return rank == 0\nif is_main():\n    look\n",
    "def is_main():\n    if not dist.is_initialized():\n        return True\n"
    "    return dist.get_rank() == 0\n"
    "if is_main():\n    look\n",
    "def is_main():\n    if rank == 0:\n        return True\n    return False\nif is_main():\n    look\n",
    "def is_main():\n    if rank != 0:\n        return False\n    else:\n        return True\n"
    "if is_main():\n    look\n",
    "is_main = lambda: rank == 0\nif is_main():\n    look\n",
    "saver = None\nif rank == 0:\n    saver = Saver()\nif saver is not None:\n    look\n",
    "saver = None\nif rank == 0:\n    saver = Saver()\nif saver:\n    look\n",
    "saver = Saver() if rank == 0 else None\nif saver is not None:\n    look\n",
    "if rank == 0:\n    saver = Saver()\nelse:\n    saver = None\nif saver is not None:\n    look\n",
    "class T:\n    def __init__(self, rank):\n        self.main = rank == 0\n    def f(self):\n"
    "        if self.main:\n            look\nT(rank).f()\n",
    "class T:\n    @property\n    def main(self):\n        return dist.get_rank() == 0\n    def f(self):\n"
    "        if self.main:\n            look\n",
    "class T:\n    def main(self):\n        return dist.get_rank() == 0\n    def f(self):\n"
    "        if self.main():\n            look\n",
    "class T:\n    def __init__(self):\n        self.log = None\n        if dist.get_rank() == 0:\n"
    "            self.log = Log()\n    def f(self):\n        if self.log is not None:\n            look\n",
    "def f(main):\n    if main:\n        look\nf(rank == 0)\n",
    "def f(main=False):\n    if main:\n        look\nf(main=dist.get_rank() == 0)\n",
    "def on(target):\n    return dist.get_rank() == target\nif on(0):\n    look\n",
    "from accelerate import Accelerator\na = Accelerator()\nif a.is_main_process:\n    look\n",
    "from transformers import Trainer\nt = Trainer()\nif t.is_world_process_zero():\n    look\n",
]


@pytest.mark.parametrize("text", GUARDS)
def test_a_guard_is_followed_to_the_rank(program: ReadProgram, text: str) -> None:
    found = truth(program, text)
    assert isinstance(found, Guard)
    assert found.described == "rank 0"


@pytest.mark.parametrize(
    "text",
    [
        "match rank:\n    case int():\n        pass\n    case 0:\n        if x:\n            look\n",
        "def setup():\n    return rank == 0, args.x\n_, main = setup()\nif main:\n    look\n",
        "saver = None\nif args.save:\n    saver = Saver()\nif saver is not None:\n    look\n",
        "saver = Saver()\nif saver is not None:\n    look\n",
        "main = check()\nif main:\n    look\n",
        "def is_main():\n    return True\nif is_main():\n    look\n",
        "def is_main():\n    if args.all:\n        return True\n    return rank == 0\n"
        "if is_main():\n    look\n",
        "def is_main(r=rank):\n    return is_main(r)\nif is_main():\n    look\n",
        "def f(main):\n    if main:\n        look\nf(rank == 0)\nf(check())\n",
        "def f(main):\n    if main:\n        look\n",
        "flag = torch.tensor(int(rank == 0))\ndist.all_reduce(flag)\nif flag.item():\n    look\n",
        "main = rank == 0\nfor main in mains:\n    if main:\n        look\n",
    ],
)
def test_what_may_be_the_same_on_every_rank_is_no_guard(program: ReadProgram, text: str) -> None:
    assert not isinstance(truth(program, text), Guard)
