"""Hosts that tell each other how their ranks ended, over loopback."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from slipway.hosts.assembly import Assembly
from slipway.processes import StopRequest
from slipway.rendezvous import Rendezvous
from slipway.restarts.agreement import Ends, all_ends, take_leave
from slipway.restarts.causes import RanksEnd
from tests.slipway.hosts.test_assembly import container, two_free_ports

DONE = RanksEnd(0, None, "", "", None, 0, 1.0, False, 9.0, 60, 50, 0)
FAILED = replace(DONE, exit_code=1, code="CODE001", text="CODE001 rank 1", message="ValueError")


@pytest.fixture
def three() -> Iterator[list[Assembly]]:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    assemblies = [Assembly(container(n, 3), rendezvous, "job-1") for n in range(3)]
    yield assemblies
    for assembly in assemblies:
        assembly.close()


def together(assemblies: list[Assembly], ends: list[RanksEnd], seconds: float = 30) -> list[Ends | None]:
    with ThreadPoolExecutor(len(assemblies)) as pool:
        return list(
            pool.map(
                lambda one: all_ends(one[0], 0, one[1], StopRequest(), seconds=seconds),
                zip(assemblies, ends, strict=False),
            )
        )


def test_where_all_succeed_there_is_no_end_to_judge(three: list[Assembly]) -> None:
    assert together(three, [DONE] * 3) == [Ends({})] * 3


def test_one_failure_is_everybodys_and_all_hear_the_same(three: list[Assembly]) -> None:
    ends = Ends({"algo-1": DONE, "algo-2": FAILED, "algo-3": DONE})
    assert together(three, [DONE, FAILED, DONE]) == [ends] * 3


def test_who_does_not_answer_in_time_is_named(three: list[Assembly]) -> None:
    ends = Ends({"algo-1": FAILED, "algo-2": FAILED}, "algo-3 did not answer within 0 s")
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
