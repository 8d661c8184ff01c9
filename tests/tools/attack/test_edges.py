"""A sample of the tables of attacks, and that an attack which breaks something is seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import pytest

from tools.attack.edges.attacks import KINDS, Attack, Expected, attacks_of
from tools.attack.edges.trying import try_all

LEAST = 60
"""Attacks of a kind."""
EVERY = 40

WRONG: Mapping[str, tuple[str, Expected]] = {
    "ended with 3 instead of 0": ("exit 3", Expected()),
    "did not say 'ready'": ("echo steady", Expected(says=("ready",))),
    "said 'word'": ("echo a word", Expected(never=("word",))),
    "wrote, changed or deleted 'left'": ("touch left", Expected()),
    "left 'scrap' in TMPDIR": ("touch $TMPDIR/scrap", Expected()),
    "not ended after 0.2 s": ("while :; do :; done", Expected(seconds=0.2)),
    "afterwards: 1": ("true", Expected(then="false")),
    "showed a traceback": ("echo 'Traceback (most recent call last):'", Expected()),
    "left a process: sleep 600": ("setsid sleep 600 > /dev/null 2>&1 & true", Expected()),
    "said 'This is a fault of the launcher'": ("echo This is a fault of the launcher", Expected()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_enough_attacks_of_each_kind_and_each_has_its_name(kind: str) -> None:
    names = [str(each) for each in attacks_of(kind)]
    assert len(names) >= LEAST


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_attacked_holds(kind: str) -> None:
    sample = islice(attacks_of(kind), 0, None, EVERY)
    assert [(str(each.attack), each.wrong) for each in try_all(sample) if each.wrong] == []


def test_every_way_of_being_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.attack.edges.trying._LEFT_SECONDS", 1.0)
    attacks = [Attack("none", run, "none", (), "", "", run, {}, expected) for run, expected in WRONG.values()]
    assert [each.wrong for each in try_all(attacks)] == [(wrong,) for wrong in WRONG]


def test_what_is_as_it_should_be_is_not_wrong() -> None:
    expected = Expected(code=(0, 3), says=("ready",), writes=("left",), then="test -e left")
    attack = Attack("none", "a", "b", ("touch", "left"), "", "", '"$@"; echo ready; exit 3', {}, expected)
    assert next(iter(try_all([attack]))).wrong == ()
    healthy = replace(attack, words=("echo",), run='"$@" ill', expected=Expected(as_healthy=True))
    assert "was not as it is in health" in next(iter(try_all([healthy]))).wrong[0]
