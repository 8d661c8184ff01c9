"""What calculations give, and what runs once."""

from __future__ import annotations

import ast

import pytest

from launcher.program.dataflow import calculate_number, origins
from launcher.program.ranks.reachability import runs_once
from tests.program.conftest import ReadProgram, program

__all__ = ["program"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("look(4 * 2 - 1)", 7),
        ("SIZE = 96\ndef half(n): return max(1, n // 2)\nlook(half(SIZE))", 48),
        ("import math\nlook(math.ceil(96 / known()))", 12),
        ("class T:\n    size = 3\nlook(min(T().size, 9))", 3),
        ("look(8 // 0)", None),
        ("look(unknown() + 1)", None),
        ("n = 3 if x else 4\nlook(n)", None),
        ("look(True)", None),
    ],
)
def test_a_calculation_of_what_is_known_gives_its_number(
    program: ReadProgram, text: str, number: float | None
) -> None:
    read = program(text)

    def known(part: ast.expr) -> float | None:
        return 8 if ast.unparse(part) == "known()" else None

    (call,) = read.entry.calls_of["look"]
    assert calculate_number(read, call.args[0], known) == number


@pytest.mark.parametrize(
    ("text", "once"),
    [
        ("look()", True),
        ("def main(): look()\nmain()", True),
        ("for epoch in range(9): look()", False),
        ("def step(): look()\nwhile more: step()", False),
        ("def step(): look()\nstep()\nstep()", False),
        ("class T:\n    def step(self): look()\nT().step()", False),
    ],
)
def test_what_no_loop_stands_around_runs_once(program: ReadProgram, text: str, once: bool) -> None:
    read = program(text)
    (call,) = read.entry.calls_of["look"]
    assert runs_once(read, call) is once


@pytest.mark.parametrize(("depth", "is_known"), [(3, True), (9, False)])
def test_where_the_ways_to_the_origins_are_too_many_something_is_unknown(
    program: ReadProgram, depth: int, is_known: bool
) -> None:
    steps = "".join(
        f"value_{number} = value_{number - 1} if a else value_{number - 1} if b else value_{number - 1}\n"
        for number in range(1, depth)
    )
    read = program(f"import sys\na, b = sys.argv\nvalue_0 = [1]\n{steps}look(value_{depth - 1})\n")
    (call,) = read.entry.calls_of["look"]
    found = origins(read, call.args[0])
    assert [ast.unparse(each) for each in found if each is not None] == ["[1]"]
    assert (None not in found) == is_known
