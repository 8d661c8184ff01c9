"""A guard is true on some ranks and false on others; what all ranks answer alike is none."""

from __future__ import annotations

import ast

import pytest

from launcher.program.ranks.guards import Guards
from launcher.program.ranks.truths import Guard, Truth
from tests.program.conftest import ReadProgram, wrong_answers

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


def test_a_guard_is_followed_to_the_rank_and_what_may_be_the_same_everywhere_is_none(
    program: ReadProgram,
) -> None:
    def told(text: str) -> str:
        found = truth(program, text)
        return found.described if isinstance(found, Guard) else "no guard"

    assert wrong_answers("guards.test", told) == []
