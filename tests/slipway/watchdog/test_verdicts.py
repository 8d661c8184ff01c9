"""What follows from a verdict."""

from __future__ import annotations

from slipway.watchdog.judgement import StallVerdict
from slipway.watchdog.verdicts import ending, verdict_from_json, verdict_to_json
from slipway.watchdog.views import UserLine


def verdict(rank: int, *, certain: bool = True, timeout: float | None = None) -> StallVerdict:
    return StallVerdict("NCCL004", (rank,), "NCCL004 ...", certain, timeout, (UserLine("a.py", 1, "f"),))


def test_what_is_certain_ends_the_job_once_a_second_look_says_the_same() -> None:
    assert not ending(verdict(2), None, 0, 600)
    assert not ending(verdict(2), verdict(1), 0, 600)
    assert not ending(None, verdict(2), 0, 600)
    assert ending(verdict(2), verdict(2), 0, 600)


def test_what_may_pass_ends_it_when_the_groups_own_timeout_would() -> None:
    known, unknown = verdict(2, certain=False, timeout=1800), verdict(2, certain=False)
    assert not ending(known, known, 1799, 600)
    assert ending(known, known, 1800, 600)
    assert not ending(unknown, unknown, 599, 600)
    assert ending(unknown, unknown, 600, 600)


def test_a_verdict_travels_as_json() -> None:
    assert verdict_from_json(verdict_to_json(verdict(2))) == verdict(2)
    assert verdict_from_json(verdict_to_json(None)) is None
