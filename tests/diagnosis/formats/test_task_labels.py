"""srun's labels are ranks only where srun starts the ranks."""

from __future__ import annotations

import pytest

from launcher.diagnosis.formats.blocks import lines_of
from launcher.diagnosis.formats.detection import format_of
from launcher.diagnosis.record import parse

STEPS = [f"{rank:2}: step {step}" for step in range(3) for rank in range(12)]


def read(lines: list[str]) -> list[str]:
    content = "\n".join(lines).encode()
    return list(lines_of(format_of(content).as_text([content])))


def test_the_task_is_the_rank() -> None:
    lines = [
        parse(line) for line in read([*STEPS, "11: ValueError: x", "srun: error: node-7: task 11: Exited"])
    ]
    assert (lines[11].rank, lines[11].text) == (11, "step 0")
    assert (lines[-2].rank, lines[-2].text) == (11, "ValueError: x")
    assert lines[-1].rank is None


def test_the_task_is_a_node_where_it_starts_torchrun() -> None:
    late = read([*STEPS, "1: [default3]:ValueError: x", "1: ValueError: y"])
    assert [(parse(line).rank, parse(line).host) for line in late[-2:]] == [(None, "task-1")] * 2
    started = read([f"{node}: Setting OMP_NUM_THREADS environment variable" for node in (0, 1)] + STEPS)
    assert {parse(line).rank for line in started} == {None}


@pytest.mark.parametrize(
    "lines",
    [
        [*STEPS[:3], *["text without a label"] * 9],
        ["3: x"] * 9,
    ],
    ids=["some lines", "no first task"],
)
def test_other_numbers_before_lines_are_left_alone(lines: list[str]) -> None:
    assert read(lines) == lines
