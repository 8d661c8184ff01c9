"""Incidents told in NCCL's and torch's words: the root is right, and nobody innocent is named."""

from __future__ import annotations

import pytest

from tests.diagnosis.incidents.roots import ROOTS
from tests.diagnosis.incidents.told import Grade, told

SAMPLE = range(2 * len(ROOTS))
"""Two of each kind; `python -m tools.attack.incidents` tells hundreds of them."""


@pytest.mark.few_cases(every=8)
@pytest.mark.parametrize("seed", SAMPLE)
def test_the_one_that_failed_is_named_and_nobody_else(seed: int) -> None:
    incident = told(seed)
    found = incident.diagnosis()
    assert incident.grade(found) is Grade.RIGHT, (incident.kind, incident.expected, found.root_cause)


def test_an_incident_is_the_same_whenever_it_is_told() -> None:
    assert told(4).files == told(4).files
    assert told(4).files != told(4 + len(ROOTS)).files
