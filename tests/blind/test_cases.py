"""The blind examples are judged as well as is claimed of them."""

from __future__ import annotations

import json

import pytest

from tests.blind.cases import RESULTS, blind_scripts, counts_of, verdicts

CLAIMED = json.loads(RESULTS.read_text("utf-8"))


@pytest.mark.parametrize("number", range(6))
def test_of_every_cell_as_many_are_judged_right_as_is_claimed(number: int) -> None:
    codes = sorted(CLAIMED)[number::6]
    found = [each for half in ("first", "second") for each in verdicts(half, codes)]
    assert counts_of(found) == {code: CLAIMED[code] for code in codes}


def test_every_example_has_a_name_of_its_own() -> None:
    names = [(case.code, case.name) for half in ("first", "second") for case in blind_scripts(half)]
    assert len(names) == len(set(names))
