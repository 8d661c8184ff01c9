"""Whether the ranks are started again, and how the hosts agree on it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from launcher.failure_modes.catalogue import CATALOGUE
from slipway.container import Rendezvous
from slipway.failure import REPORTS
from slipway.host_assembly import Assembly
from slipway.processes.restart_ranks import (
    HARDWARE,
    NEVER_AFTER,
    RESTART_AFTER,
    JobEnd,
    Neighbours,
    RanksEnd,
    StartEnds,
    all_ends,
    decide_restart,
    end_of_job,
    take_leave,
)
from slipway.processes.supervise import StopRequest
from tests.slipway.test_boot import eventually
from tests.slipway.test_host_assembly import container, two_free_ports

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


@pytest.mark.parametrize("code", sorted(RESTART_AFTER))
def test_what_may_pass_is_tried_again_for_as_long_as_the_job_gets_on(code: str) -> None:
    cause = replace(KILLED, code=code)
    before = [job(cause, steps=10, checkpoint=10), job(cause, steps=10, checkpoint=15)]
    assert decide_restart(job(cause), before, allowed=3).again
    assert not decide_restart(job(cause), before, allowed=2).again


@pytest.mark.parametrize("code", sorted(NEVER_AFTER))
def test_what_stays_as_it_is_is_never_tried_again(code: str) -> None:
    decision = decide_restart(job(replace(KILLED, code=code)), [], allowed=9)
    assert (decision.again, decision.why) == (False, NEVER_AFTER[code])


@pytest.mark.parametrize(
    "message",
    [
        "ImportError: cannot import name 'x' from 'y'",
        "ModuleNotFoundError: No module named 'y'",
        "SyntaxError: invalid syntax",
    ],
)
def test_neither_are_imports_and_syntax_whatever_their_code(message: str) -> None:
    assert not decide_restart(job(replace(RAISED, message=message)), [], allowed=9).again


def test_an_exception_has_one_chance_and_none_at_the_same_line() -> None:
    assert decide_restart(job(RAISED), [], allowed=9).again
    again = decide_restart(
        job(replace(RAISED, message="ValueError: no row 9"), 50, 40), [job(RAISED)], allowed=9
    )
    assert (again.again, again.why) == (False, "the same failed at train.py:12 before")


@pytest.mark.parametrize(
    "other", [replace(RAISED, place="train.py:13"), replace(RAISED, message="KeyError: 'ValueError'")]
)
def test_another_exception_or_another_line_is_another_chance(other: RanksEnd) -> None:
    assert decide_restart(job(other, 50, 40), [job(RAISED)], allowed=9).again


def test_a_killed_rank_may_be_killed_again_where_the_job_got_on() -> None:
    assert decide_restart(job(KILLED, steps=5, checkpoint=30), [job(KILLED)], allowed=9).again
    assert decide_restart(job(KILLED, steps=26, checkpoint=20), [job(KILLED)], allowed=9).again


def test_a_start_that_came_no_further_is_the_last() -> None:
    decision = decide_restart(job(KILLED), [job(KILLED)], allowed=9)
    assert not decision.again
    assert "no further" in decision.why


def test_a_checkpoint_older_than_any_before_is_no_progress() -> None:
    before = [job(KILLED, 25, 40), job(KILLED, 25, 10)]
    assert not decide_restart(job(KILLED, 25, 30), before, allowed=9).again


def test_without_restarts_there_is_none() -> None:
    assert not decide_restart(job(KILLED), [], allowed=0).again


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
    assert not decide_restart(end, [], allowed=9).again


def test_a_verdict_of_the_watchdog_is_the_cause_of_what_followed() -> None:
    stalled = replace(KILLED, code="NCCL004", stalled=True, time=200.0, weight=1)
    assert end_of_job({"algo-1": RAISED, "algo-2": stalled}).host == "algo-2"


def test_every_code_is_one_of_the_catalogue_and_in_one_table_alone() -> None:
    assert {*RESTART_AFTER, *NEVER_AFTER} <= set(CATALOGUE)
    assert not set(RESTART_AFTER) & set(NEVER_AFTER)
    assert {*RESTART_AFTER, *NEVER_AFTER} <= set(REPORTS)


DONE = RanksEnd(0, None, "", "", None, 0, 1.0, False, 9.0, 60, 50, 0)
FAILED = replace(DONE, exit_code=1, code="CODE001", text="CODE001 rank 1", message="ValueError")


@pytest.fixture
def three() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 3), rendezvous, "job-1") for n in range(3)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


def together(assemblies: list[Assembly], ends: list[RanksEnd], seconds: float = 30) -> list[StartEnds | None]:
    with ThreadPoolExecutor(len(assemblies)) as pool:
        return list(
            pool.map(
                lambda one: all_ends(one[0], 0, one[1], StopRequest(), seconds=seconds),
                zip(assemblies, ends, strict=False),
            )
        )


def test_where_all_succeed_there_is_no_end_to_judge(three: list[Assembly]) -> None:
    assert together(three, [DONE] * 3) == [StartEnds({})] * 3


def test_one_failure_is_everybodys_and_all_hear_the_same(three: list[Assembly]) -> None:
    ends = StartEnds({"algo-1": DONE, "algo-2": FAILED, "algo-3": DONE})
    assert together(three, [DONE, FAILED, DONE]) == [ends] * 3


def test_who_does_not_answer_in_time_is_named(three: list[Assembly]) -> None:
    ends = StartEnds({"algo-1": FAILED, "algo-2": FAILED}, "algo-3 did not answer within 0 s")
    assert together(three[:2], [FAILED, FAILED], seconds=0.3) == [ends] * 2


def test_a_stop_ends_the_waiting_for_hosts_that_still_work(three: list[Assembly]) -> None:
    stop = StopRequest()
    stop.request(signal.SIGTERM)
    assert all_ends(three[0], 0, DONE, stop) is None


def test_the_first_host_answers_until_the_others_have_left(three: list[Assembly]) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(take_leave, three[0], 0)
        take_leave(three[1], 0)
        take_leave(three[2], 0)
        first.result(timeout=30)
    assert set(three[0].read("restarts-0:left")) == {"algo-2", "algo-3"}


@pytest.fixture
def two() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 2), rendezvous, "job-1") for n in range(2)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


@pytest.fixture
def command() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def heard(two: list[Assembly], neighbours: Neighbours) -> Neighbours:
    neighbours.start()
    two[0].post("failed", True)
    eventually(lambda: neighbours.heard)
    return neighbours


def test_nothing_happens_as_long_as_no_host_has_failed(
    two: list[Assembly], command: subprocess.Popen[bytes]
) -> None:
    neighbours = Neighbours(two[1], "failed", lambda _: True, poll=0.01)
    neighbours.start()
    neighbours.end_with_them(command.pid)
    assert not neighbours.ended
    assert command.poll() is None
    neighbours.close()


def test_ranks_that_only_wait_are_ended(two: list[Assembly], command: subprocess.Popen[bytes]) -> None:
    neighbours = heard(two, Neighbours(two[1], "failed", lambda _: True, poll=0.01))
    neighbours.end_with_them(command.pid)
    assert neighbours.ended
    assert command.wait(timeout=60) == -9


def test_where_a_rank_has_died_too_torchrun_has_time_to_say_which(
    two: list[Assembly], command: subprocess.Popen[bytes]
) -> None:
    now = [100.0]
    neighbours = Neighbours(two[1], "failed", lambda _: False, poll=0.01, patience=5, clock=lambda: now[0])
    heard(two, neighbours)
    for now[0] in (100.0, 104.0):
        neighbours.end_with_them(command.pid)
        assert not neighbours.ended
    now[0] = 105.0
    neighbours.end_with_them(command.pid)
    assert neighbours.ended
