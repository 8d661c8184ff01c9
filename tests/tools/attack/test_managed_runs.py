"""A sample of the managed runs to which everything happens, and what is found where a rule is broken."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.planning.next_attempt import TryAgain
from launcher.session.managed import advance_run
from launcher.session.managed.records import AttemptRecord, Records
from tools.attack.managed.campaign import campaign

SAMPLE = 6


def test_no_run_is_doubled_lost_or_dearer_than_its_budget() -> None:
    done = campaign(SAMPLE, seed=1)
    assert done.violated == []
    assert done.runs == SAMPLE
    assert min(done.counted["kills"], done.counted["calls that failed"]) > 0


@pytest.mark.exhaustive
def test_the_same_seed_is_the_same_run() -> None:
    assert campaign(2, seed=2) == campaign(2, seed=2)


@pytest.mark.exhaustive
def test_a_controller_that_does_not_look_for_a_stop_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advance_run, "_stop_after", lambda records, number: None)
    monkeypatch.setattr(Records, "claim_start", lambda self, claim: claim)
    assert any("after the run was stopped" in each for each in campaign(12, seed=3).violated)


@pytest.mark.exhaustive
def test_a_controller_that_tries_again_whatever_the_cause_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = advance_run._record

    def always_again(*given: Any) -> AttemptRecord:
        found = record(*given)
        again = TryAgain(found.instance_type, 0.0, "why not")
        return AttemptRecord(**{**_fields(found), "following": again}) if found.number < 3 else found

    monkeypatch.setattr(advance_run, "_record", always_again)
    assert any("follows an attempt that ended so" in each for each in campaign(12, seed=3).violated)


def _fields(record: AttemptRecord) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__annotations__}
