"""A sample of the managed runs to which everything happens, and what is found where a rule is broken."""

from __future__ import annotations

import pytest

from tools.attack.managed.campaign import campaign

SAMPLE = 6

LOOKS_FOR_NO_STOP = """
from launcher.session.managed import advance_run
from launcher.session.managed.records import Records

advance_run._stop_after = lambda records, number: None
Records.claim_start = lambda self, claim: claim
"""
TRIES_AGAIN_WHATEVER_THE_CAUSE = """
from launcher.planning.next_attempt import TryAgain
from launcher.session.managed import advance_run
from launcher.session.managed.records import AttemptRecord

record = advance_run._record


def always_again(*given):
    found = record(*given)
    fields = {name: getattr(found, name) for name in found.__annotations__}
    fields["following"] = TryAgain(found.instance_type, 0.0, "why not")
    return AttemptRecord(**fields) if found.number < 3 else found


advance_run._record = always_again
"""


@pytest.mark.exhaustive
def test_no_run_is_doubled_lost_or_dearer_than_its_budget() -> None:
    done = campaign(SAMPLE, seed=1)
    assert done.violated == []
    assert done.runs == SAMPLE
    assert min(done.counted["kills"], done.counted["calls that failed"]) > 0


@pytest.mark.exhaustive
def test_the_same_seed_is_the_same_run() -> None:
    assert campaign(2, seed=2) == campaign(2, seed=2)


@pytest.mark.exhaustive
def test_a_function_that_does_not_look_for_a_stop_is_found_out() -> None:
    done = campaign(12, seed=3, change=LOOKS_FOR_NO_STOP)
    assert any("after the run was stopped" in each for each in done.violated)


@pytest.mark.exhaustive
def test_a_function_that_tries_again_whatever_the_cause_is_found_out() -> None:
    done = campaign(12, seed=3, change=TRIES_AGAIN_WHATEVER_THE_CAUSE)
    assert any("follows an attempt that ended so" in each for each in done.violated)


def test_a_function_that_crashes_is_found_out() -> None:
    done = campaign(1, seed=2, change="controller._dispatch = lambda message, controller: 1 / 0")
    assert any("ZeroDivisionError" in each for each in done.violated)
