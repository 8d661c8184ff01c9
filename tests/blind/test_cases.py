"""The blind examples are judged as well as is claimed of them."""

from __future__ import annotations

import json

import pytest

from tests.blind.cases import FOLDERS, HALVES, QUICK, RESULTS, counts_of, examples, verdicts

JUDGED = {stage.value for stage in QUICK}
CLAIMED = json.loads(RESULTS.read_text("utf-8"))


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in range(1, 6))])
def test_of_every_cell_as_many_are_judged_right_as_is_claimed(number: int) -> None:
    codes = sorted(CLAIMED)[number::6]
    found = [each for half in HALVES for each in verdicts(half, codes)]
    judged = {
        code: {stage: CLAIMED[code][stage] for stage in CLAIMED[code] if stage in JUDGED} for code in codes
    }
    assert counts_of(found) == {code: stages for code, stages in judged.items() if stages}


def test_every_example_has_a_name_of_its_own() -> None:
    found = [case for half in HALVES for stage in FOLDERS for case in examples(half, stage)]
    names = [(case.code, case.stage, case.name) for case in found]
    assert len(names) == len(set(names))
