"""A sample of what is fuzzed: whatever is made of a valid input, the launcher takes it or refuses it."""

from __future__ import annotations

import time
from mmap import mmap
from pathlib import Path

import pytest
from hypothesis.strategies import DataObject

from tools.attack.forks import in_forks
from tools.attack.fuzzing.areas import AREAS, Area
from tools.attack.fuzzing.campaign import CASE_SECONDS, fuzz, try_cases
from tools.attack.fuzzing.handing_over import user_in
from tools.attack.fuzzing.mutations import mutated, odd_values, written

FEW, CASES = 30, 120
DOCUMENT = {"name": "digits", "resources": {"instance_count": 2}, "list": [1, 2]}


@pytest.mark.parametrize("cases", [FEW, pytest.param(CASES, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.name)
def test_nothing_that_is_made_of_a_valid_input_brings_the_launcher_down(
    area: Area, cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attempt(drawn: DataObject) -> None:
        began = time.process_time()
        area.attack(drawn.draw, tmp_path)
        assert time.process_time() - began < CASE_SECONDS

    monkeypatch.chdir(tmp_path)
    with user_in(tmp_path):
        try_cases(attempt, cases, 0)


def made(seed: int) -> list[bytes]:
    files: list[bytes] = []
    try_cases(lambda drawn: files.append(drawn.draw(written(drawn.draw(mutated(DOCUMENT))))), 20, seed)
    return files


def test_a_seed_makes_the_same_cases_again_and_another_one_others() -> None:
    before = repr(DOCUMENT)
    first, again, other = made(1), made(1), made(2)
    assert first == again
    assert len({*first, *other}) > 20
    assert repr(DOCUMENT) == before


def test_a_case_that_fails_is_told_as_the_smallest_one_that_does() -> None:
    def attack(draw, folder: Path) -> None:
        value = draw(odd_values)
        if isinstance(value, list):
            raise KeyError(value)

    found = fuzz(Area("planted", "", attack), 100, at_once=1)
    assert found.failed == {"KeyError: []": 1}


def test_the_memory_that_a_parent_has_mapped_is_not_counted_against_its_forks() -> None:
    limit = 2**28
    with mmap(-1, 4 * limit):
        (ended,) = in_forks([2**25], lambda size: len(bytes(size)), memory_bytes=limit)
        (refused,) = in_forks([2 * limit], lambda size: mmap(-1, size).close(), memory_bytes=limit)

    assert ended.answer == 2**25
    assert refused.trouble == "the work on it ended with 1"
