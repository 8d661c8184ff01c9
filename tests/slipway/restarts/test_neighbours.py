"""Ranks that are ended because those of another host have failed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from slipway.hosts.assembly import Assembly
from slipway.rendezvous import Rendezvous
from slipway.restarts.neighbours import Neighbours
from tests.slipway.hosts.test_assembly import container, two_free_ports
from tests.slipway.test_boot import eventually


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
