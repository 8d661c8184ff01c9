"""A sample of what is fuzzed: whatever is made of a valid input, the launcher takes it or refuses it."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from tools.attack.fuzzing.areas import AREAS, Area
from tools.attack.fuzzing.campaign import CASE_SECONDS, try_case
from tools.attack.fuzzing.handing_over import user_in
from tools.attack.fuzzing.mutations import mutated, written

FEW, CASES = 30, 120


@pytest.mark.parametrize("cases", [FEW, pytest.param(CASES, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.name)
def test_nothing_that_is_made_of_a_valid_input_brings_the_launcher_down(
    area: Area, cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with user_in(tmp_path):
        for seed in range(cases):
            began = time.process_time()
            try:
                try_case(area, seed, tmp_path)
            except Exception as error:
                error.add_note(f"the case of seed {seed}")
                raise
            assert time.process_time() - began < CASE_SECONDS, f"the case of seed {seed}"


def test_a_seed_makes_the_same_case_again_and_another_one_another() -> None:
    document = {"name": "digits", "resources": {"instance_count": 2}, "list": [1, 2]}

    def case(seed: int) -> bytes:
        chosen = Random(f"job files {seed}")
        return written(chosen, mutated(chosen, document))

    assert case(1) == case(1)
    assert len({case(seed) for seed in range(50)}) > 40
    assert document == {"name": "digits", "resources": {"instance_count": 2}, "list": [1, 2]}
