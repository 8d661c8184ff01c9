"""Where a stack is, and which loop a rank has left."""

from __future__ import annotations

import pytest

from slipway.watchdog.loops import loop_left
from slipway.watchdog.places import StackFrame, is_saving, user_lines, waits_inside
from slipway.watchdog.views import UserLine
from slipway.watchdog.wording import ranks_text
from tests.slipway.watchdog.ranks_seen import BEHIND, IN_STEP, TRAIN

NESTED = """\
def fit():
    for epoch in range(3):
        for batch in loader:
            train(batch)
        evaluate()
    save()
"""


def test_only_the_users_own_lines_are_kept_by_their_place_below_the_code() -> None:
    frames = [
        StackFrame("/lib/python3.11/runpy.py", 88, "_run_code"),
        StackFrame("/code/train.py", 9, "<module>"),
        StackFrame("/code/lib/step.py", 3, "step"),
        StackFrame("/codes/other.py", 1, "other"),
    ]
    assert [str(line) for line in user_lines(frames, "/code")] == ["train.py:9", "lib/step.py:3"]


@pytest.mark.parametrize(
    ("file", "function", "saving"),
    [
        ("/lib/torch/distributed/checkpoint/state_dict_saver.py", "save", True),
        ("/lib/torch/nn/modules/module.py", "state_dict", True),
        ("/code/train.py", "save_checkpoint", True),
        ("/lib/lightning/trainer.py", "_save_model", True),
        ("/lib/torch/autograd/graph.py", "save_on_cpu", False),
        ("/code/train.py", "train", False),
    ],
)
def test_saving_is_known_by_its_functions(file: str, function: str, saving: bool) -> None:
    assert is_saving([StackFrame("/code/train.py", 1, "<module>"), StackFrame(file, 5, function)]) == saving


@pytest.mark.parametrize(
    ("file", "function", "waits"),
    [
        ("/lib/torch/distributed/distributed_c10d.py", "barrier", True),
        ("/lib/torch/autograd/graph.py", "_engine_run_backward", True),
        ("/lib/torch/autograd/graph.py", "increment_version", False),
        ("/code/train.py", "barrier", False),
    ],
)
def test_waiting_is_known_by_where_pytorch_waits(file: str, function: str, waits: bool) -> None:
    assert waits_inside([StackFrame("/code/train.py", 1, "<module>"), StackFrame(file, 5, function)]) == waits
    assert not waits_inside([])


def left(text: str, inside: tuple[UserLine, ...], elsewhere: tuple[UserLine, ...]) -> int | None:
    found = loop_left(inside, elsewhere, {"train.py": text}.get)
    return None if found is None else found.number


def in_fit(number: int) -> tuple[UserLine, ...]:
    return (UserLine("train.py", number, "fit"),)


def test_behind_a_call_is_behind_its_loops() -> None:
    assert left(TRAIN, IN_STEP, BEHIND) == 2


def test_of_nested_loops_the_outermost_that_was_left_is_named() -> None:
    assert left(NESTED, in_fit(4), in_fit(5)) == 3
    assert left(NESTED, in_fit(4), in_fit(6)) == 2
    assert left(NESTED, in_fit(5), in_fit(6)) == 2


def test_a_loop_over_parameters_is_entered_again_in_the_next_step() -> None:
    text = (
        "def fit():\n    for batch in loader:\n        for each in model.parameters():\n"
        "            dist.all_reduce(each.grad)\n        evaluate()\n"
    )
    assert left(text, in_fit(4), in_fit(5)) is None


def test_who_is_in_the_same_loop_or_before_it_has_not_left_it() -> None:
    assert left(NESTED, in_fit(5), in_fit(4)) is None
    assert left(NESTED, in_fit(4), in_fit(4)) is None
    assert left(NESTED, in_fit(4), in_fit(1)) is None


@pytest.mark.parametrize("text", ["", "def broken(:", "\0"])
def test_a_file_that_is_not_known_tells_nothing(text: str) -> None:
    assert left(text, in_fit(4), in_fit(6)) is None
    assert loop_left(in_fit(4), in_fit(6), lambda _: None) is None


def test_another_function_tells_nothing() -> None:
    assert left(NESTED, in_fit(4), (UserLine("train.py", 6, "main"),)) is None


def test_ranks_are_listed_or_drawn_together() -> None:
    assert ranks_text([2]) == "rank 2"
    assert ranks_text([3, 0, 1]) == "ranks 0, 1, 3"
    assert ranks_text([*range(7), *range(8, 64)]) == "ranks 0-6, 8-63"
    assert ranks_text(range(0, 64, 2)) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 24 more stretches"
