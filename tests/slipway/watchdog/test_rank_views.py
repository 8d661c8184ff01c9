"""What is known of a rank: views, stacks, and PyTorch's flight recorder."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import replace
from typing import Any

import pytest

from slipway.watchdog.judge_stall import loop_left, ranks_text
from slipway.watchdog.rank_views import (
    KEPT_OF_A_GROUP,
    StackFrame,
    UserLine,
    group_ranks,
    is_saving,
    operations_in,
    read_dump,
    steady_view,
    user_lines,
    view_from_json,
    view_to_json,
    waits_inside,
)
from tests.slipway.watchdog.ranks_seen import BEHIND, IN_STEP, TRAIN, operation, seen, waiting


def test_who_made_a_step_or_entered_a_collective_gets_on() -> None:
    assert steady_view(seen(0), seen(0, steps=36)) is None
    assert steady_view(seen(0), waiting(0)) is None
    assert steady_view(seen(0), seen(0)) == seen(0)


def test_what_was_waited_in_only_once_is_not_waited_in() -> None:
    before = waiting(0, operation(35, waits=False), operation(36, waits=False))
    after = waiting(0, operation(35, waits=False), operation(36))
    stable = steady_view(before, after)
    assert stable is not None and stable.waiting == ()
    stable = steady_view(after, after)
    assert stable is not None and [each.number for each in stable.waiting] == [36]


def test_a_state_that_changed_is_not_a_stopped_one() -> None:
    stopped = seen(0, state="T")
    one = steady_view(seen(0, state="R"), stopped)
    both = steady_view(stopped, stopped)
    assert one is not None and one.state == "S"
    assert both is not None and both.state == "T"


def test_a_view_travels_as_json() -> None:
    view = replace(waiting(1, operation(peer=0), operation(37, group="1")), ended=True)
    assert view_from_json(json.loads(json.dumps(view_to_json(view)))) == view


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


def entry(number: int, *, retired: bool = True, **more: Any) -> dict[str, Any]:
    """As gloo's recorder of torch 2.13 writes it."""
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "is_p2p": False,
        "profiling_name": "gloo:all_reduce",
        "input_sizes": [[4160]],
        "frames": [
            {"name": "all_reduce", "filename": "/lib/torch/distributed/distributed_c10d.py", "line": 3245},
            {"name": "step", "filename": "/code/lib/step.py", "line": 5},
            {"name": "<module>", "filename": "/code/train.py", "line": 17},
        ],
        "retired": retired,
        "state": "scheduled",
        "time_created_ns": 1_000_000_000_000,
        "timeout_ms": 600_000,
        **more,
    }


def test_a_collective_is_read_with_the_users_lines() -> None:
    dump = read_dump(pickle.dumps({"version": "2.10", "entries": [entry(1, retired=False)]}))
    last, (operation,) = operations_in(dump, "/code", now=1012.0)
    assert last == {"0": 1}
    assert (operation.name, operation.sizes, operation.waits) == ("all_reduce", "[4160]", True)
    assert [str(line) for line in operation.lines] == ["train.py:17", "lib/step.py:5"]
    assert (operation.seconds, operation.timeout, operation.saving) == (12.0, 600.0, False)


def test_of_a_long_recording_the_newest_are_kept_and_the_oldest_that_waits() -> None:
    entries = [entry(number, retired=number != 3) for number in range(1, 101)]
    last, operations = operations_in({"entries": entries}, "/code", now=0)
    assert last == {"0": 100}
    assert [each.number for each in operations] == [3, *range(101 - KEPT_OF_A_GROUP, 101)]


@pytest.mark.parametrize(
    ("state", "retired", "waits"),
    [
        ("scheduled", False, True),
        ("started", False, True),
        ("completed", False, False),
        ("started", True, False),
    ],
)
def test_what_is_completed_or_retired_does_not_wait(state: str, retired: bool, waits: bool) -> None:
    _, (operation,) = operations_in({"entries": [entry(1, retired=retired, state=state)]}, "/code", 0)
    assert operation.waits == waits


def test_a_receive_names_its_peer_and_counts_apart() -> None:
    received = entry(7, is_p2p=True, p2p_seq_id=2, profiling_name="nccl:recv 1<-3")
    last, (operation,) = operations_in({"entries": [received]}, "/code", 0)
    assert last == {"0 (p2p)": 2}
    assert operation.peer == 3


def test_the_words_of_older_recorders_are_read_too() -> None:
    older = entry(0)
    for name in ("process_group", "collective_seq_id", "is_p2p", "timeout_ms", "retired"):
        del older[name]
    last, (operation,) = operations_in({"entries": [{**older, "pg_id": 0, "seq_id": 9}]}, "/code", 0)
    assert (last, operation.timeout) == ({"0": 9}, None)


def test_saving_is_seen_in_the_frames() -> None:
    frames = [{"name": "_state_dict", "filename": "/lib/torch/nn/x.py", "line": 1}]
    _, (operation,) = operations_in({"entries": [entry(1, frames=frames)]}, "/code", 0)
    assert operation.saving


def test_nccls_recorder_knows_the_ranks_of_its_groups() -> None:
    config = {
        "a": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2]"},
        "b": {"name": "1", "ranks": "[]"},
        "c": {"name": "", "ranks": "[0, 1]"},
    }
    assert group_ranks({"pg_config": config}) == {"0": (0, 1, 2)}


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/should-not-be-there",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"entries": [Evil()]}),
        pickle.dumps([]),
        pickle.dumps({"entries": 3}),
        pickle.dumps({"entries": []})[:-3],
        b"",
        b"not a pickle",
    ],
)
def test_what_is_no_dump_is_refused_and_no_class_is_loaded(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a flight recorder's dump"):
        read_dump(content)


@pytest.mark.parametrize("broken", [{}, {"process_group": ("0", "x")}, 3, {**entry(1), "frames": [3]}])
def test_an_entry_that_cannot_be_read_is_said(broken: Any) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        operations_in({"entries": [broken]}, "/code", 0)
