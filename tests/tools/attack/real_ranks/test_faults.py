"""The campaign of injected faults: what its judge calls wrong, and one of its jobs for real."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools.attack.real_ranks.faults import FAULTS, Answer, Fault, run, what_is_wrong


def fault(name: str) -> Fault:
    return next(each for each in FAULTS if each.name == name)


def test_there_are_at_least_twenty_kinds_with_names_of_their_own() -> None:
    names = {each.name for each in FAULTS}
    assert len(names) == len(FAULTS) >= 20


@pytest.mark.parametrize("each", FAULTS, ids=lambda each: each.name)
def test_every_script_is_python_with_its_fault_in_it(each: Fault) -> None:
    ast.parse(each.script)
    for part in (each.at, each.first, each.before, each.after):
        assert all(line in each.script for line in part.splitlines())
    assert "slipway" not in each.script.replace("of slipway", "")


def test_the_right_mode_and_the_right_rank_are_right() -> None:
    assert what_is_wrong(fault("killed"), Answer("MEM002", 2, "algo-2")) == ""


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer("STOP001", 2, "algo-2", "SIGTERM"), "STOP001, not MEM002: SIGTERM"),
        (Answer("MEM002", 3, "algo-2", "SIGKILL"), "rank 3, not 2: SIGKILL"),
        (Answer("MEM002", None, None), "rank None, not 2"),
        (Answer(None, None, None, "verdict healthy"), "nothing, not MEM002"),
    ],
)
def test_another_mode_or_another_rank_or_none_is_wrong(answer: Answer, told: str) -> None:
    assert told in what_is_wrong(fault("killed"), answer)


def test_where_a_host_fails_as_a_whole_it_must_be_named() -> None:
    missing = fault("file missing on one host")
    assert what_is_wrong(missing, Answer("CODE001", None, "algo-2")) == ""
    assert what_is_wrong(missing, Answer("CODE001", 2, "algo-1"))
    assert what_is_wrong(missing, Answer("CODE001", 2, None))


@pytest.mark.exhaustive
def test_a_rank_that_is_killed_is_named_from_what_the_hosts_leave(tmp_path: Path) -> None:
    assert run(fault("killed"), tmp_path).wrong == ""
