"""After which ends the ranks are started again, and after which not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.failure_modes.catalogue import CATALOGUE
from slipway.failure import REPORTS
from slipway.restarts.causes import AFTER, HARDWARE, NEVER, JobEnd, RanksEnd, decide, end_of_job

KILLED = RanksEnd(
    exit_code=-9,
    code="MEM002",
    text="MEM002 rank 3 on algo-2: killed by SIGKILL (exit -9)",
    message="killed by SIGKILL (exit -9): the usual reason is host memory",
    place=None,
    weight=0,
    time=100.0,
    stalled=False,
    lasted=30.0,
    steps=25,
    checkpoint=20,
    port=4000,
)
RAISED = replace(
    KILLED, exit_code=1, code="CODE001", message="ValueError: no row 7 in batch 3", place="train.py:12"
)
ENDED_WITH_THEM = replace(KILLED, code=None, text="", message="", checkpoint=-1)


def job(cause: RanksEnd, steps: int = 25, checkpoint: int = 20) -> JobEnd:
    return JobEnd("algo-2", cause, steps, checkpoint)


@pytest.mark.parametrize("code", sorted(AFTER))
def test_what_may_pass_is_tried_again_for_as_long_as_the_job_gets_on(code: str) -> None:
    cause = replace(KILLED, code=code)
    before = [job(cause, steps=10, checkpoint=10), job(cause, steps=10, checkpoint=15)]
    assert decide(job(cause), before, allowed=3).again
    assert not decide(job(cause), before, allowed=2).again


@pytest.mark.parametrize("code", sorted(NEVER))
def test_what_stays_as_it_is_is_never_tried_again(code: str) -> None:
    decision = decide(job(replace(KILLED, code=code)), [], allowed=9)
    assert (decision.again, decision.why) == (False, NEVER[code])


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: cannot import name 'x' from 'y'",
        "ModuleNotFoundError: No module named 'y'",
        "SyntaxError: invalid syntax",
    ],
)
def test_neither_are_imports_and_syntax_whatever_their_code(message: str) -> None:
    assert not decide(job(replace(RAISED, message=message)), [], allowed=9).again


def test_an_exception_has_one_chance_and_none_at_the_same_line() -> None:
    assert decide(job(RAISED), [], allowed=9).again
    again = decide(job(replace(RAISED, message="ValueError: no row 9"), 50, 40), [job(RAISED)], allowed=9)
    assert (again.again, again.why) == (False, "the same failed at train.py:12 before")


@pytest.mark.parametrize(
    "other", [replace(RAISED, place="train.py:13"), replace(RAISED, message="KeyError: 'ValueError'")]
)
def test_another_exception_or_another_line_is_another_chance(other: RanksEnd) -> None:
    assert decide(job(other, 50, 40), [job(RAISED)], allowed=9).again


def test_a_killed_rank_may_be_killed_again_where_the_job_got_on() -> None:
    assert decide(job(KILLED, steps=5, checkpoint=30), [job(KILLED)], allowed=9).again
    assert decide(job(KILLED, steps=26, checkpoint=20), [job(KILLED)], allowed=9).again


def test_a_start_that_came_no_further_is_the_last() -> None:
    decision = decide(job(KILLED), [job(KILLED)], allowed=9)
    assert not decision.again
    assert "no further" in decision.why


def test_a_checkpoint_older_than_any_before_is_no_progress() -> None:
    before = [job(KILLED, 25, 40), job(KILLED, 25, 10)]
    assert not decide(job(KILLED, 25, 30), before, allowed=9).again


def test_without_restarts_there_is_none() -> None:
    assert not decide(job(KILLED), [], allowed=0).again


def test_the_cause_is_the_rank_that_failed_and_not_those_that_lost_it() -> None:
    lost = replace(KILLED, code="NCCL006", weight=2, time=99.0, checkpoint=30)
    end = end_of_job({"algo-1": lost, "algo-2": RAISED, "algo-3": ENDED_WITH_THEM})
    assert (end.host, end.cause, end.checkpoint) == ("algo-2", RAISED, 30)


def test_of_two_causes_the_earlier_counts_and_a_host_that_succeeded_has_none() -> None:
    done = replace(KILLED, exit_code=0, code=None, time=1.0, steps=60)
    end = end_of_job({"algo-1": done, "algo-2": KILLED, "algo-3": replace(RAISED, time=99.0)})
    assert (end.host, end.steps) == ("algo-3", 60)


@pytest.mark.parametrize("code", HARDWARE)
def test_broken_hardware_is_the_cause_of_whatever_else_failed(code: str) -> None:
    broken = replace(KILLED, code=code, time=300.0, weight=2)
    stalled = replace(KILLED, code="NCCL004", stalled=True)
    end = end_of_job({"algo-1": RAISED, "algo-2": stalled, "algo-3": broken})
    assert end.host == "algo-3"
    assert not decide(end, [], allowed=9).again


def test_a_verdict_of_the_watchdog_is_the_cause_of_what_followed() -> None:
    stalled = replace(KILLED, code="NCCL004", stalled=True, time=200.0, weight=1)
    assert end_of_job({"algo-1": RAISED, "algo-2": stalled}).host == "algo-2"


def test_every_code_is_one_of_the_catalogue_and_in_one_table_alone() -> None:
    assert {*AFTER, *NEVER} <= set(CATALOGUE)
    assert not set(AFTER) & set(NEVER)
    assert {*AFTER, *NEVER} <= set(REPORTS)
