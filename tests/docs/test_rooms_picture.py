"""The picture of the rooms shows every room, and no import that the contract would refuse."""

from __future__ import annotations

from functools import cache

import pytest

from tools.generate import rooms_diagram as diagram
from tools.generate.generated import ROOT

imports = cache(diagram.imports)


def test_every_room_of_the_launcher_is_in_it() -> None:
    drawn = {room for floor in diagram.floors() for room in floor}
    there = {f"launcher.{file.parent.name}" for file in (ROOT / "launcher").glob("*/__init__.py")}
    assert there <= drawn


def test_every_room_has_a_sentence_that_says_what_it_is_for() -> None:
    graph = diagram.graph_of(diagram.floors(), imports())
    for floor in diagram.floors():
        for room in floor:
            (line,) = [line for line in graph.splitlines() if line.strip().startswith(f'"{room}" [')]
            assert line.count("<FONT") >= 1, room


def test_every_arrow_within_the_launcher_runs_down() -> None:
    height = {room: -number for number, floor in enumerate(diagram.floors()) for room in floor}
    upwards = [
        (source, target)
        for source, target in imports()
        if source in height and target in height and height[source] < height[target]
    ]
    assert upwards == []


def test_the_container_stands_alone() -> None:
    assert diagram.CONTAINER not in {room for arrow in imports() for room in arrow}


@pytest.mark.parametrize(
    ("arrows", "drawn"),
    [
        ({("a", "b"), ("b", "c"), ("a", "c")}, {("a", "b"), ("b", "c")}),
        (
            {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "d")},
            {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")},
        ),
        ({("a", "b")}, {("a", "b")}),
    ],
    ids=["a chain", "two ways", "one arrow"],
)
def test_an_arrow_that_follows_from_others_is_left_out(
    arrows: set[tuple[str, str]], drawn: set[tuple[str, str]]
) -> None:
    assert diagram.without_implied(frozenset(arrows)) == drawn
