"""The controller's step, cut short or failing at each of its calls: the same events later finish it, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from launcher.failure_modes.model import Refusal
from launcher.planning.next_attempt import name_attempt
from launcher.session.managed.records import ManagedPlan
from tests.emulator.faults import (
    DENIED,
    DENIED_S3,
    LOST,
    PORTAL,
    SLOW_DOWN,
    THROTTLED,
    Fault,
    no_backoff,
)
from tests.emulator.managed_cluster import ManagedCluster
from tests.emulator.sagemaker import Ending
from tests.emulator.stepped_clients import Call

HARDWARE = Ending(
    "AlgorithmError: HW002 rank 3 on algo-1: Xid 79, the GPU has fallen off the bus, exit code: 1",
    {"algo-1": ["[rank0]: step=100 loss=1.0"]},
)
SAVED = ("step-100/.metadata", "step-100/__0_0.distcp")
LEASE_SECONDS = 900 + 60 + 1
EVERY = pytest.mark.parametrize(
    "every", [pytest.param(6, id="a share"), pytest.param(1, id="all", marks=pytest.mark.exhaustive)]
)
"""Of how many calls one is tried."""


class Killed(BaseException):
    """The process is gone: nothing in it goes on."""


@dataclass
class Cut:
    """The process of a step is killed at the call of that number, before or after AWS does what it asks."""

    number: int
    after: bool = False
    calls: list[str] = field(default_factory=list)

    def __call__(self, call: Call) -> Any:
        if not call.is_again:
            self.calls.append(call.name)
        if len(self.calls) < self.number:
            return call.carry_out()
        if len(self.calls) == self.number and self.after:
            call.carry_out()
        raise Killed


@dataclass
class Failing:
    """The call of that number meets a fault, however often it is made."""

    number: int
    fault: Fault
    calls: list[str] = field(default_factory=list)

    def __call__(self, call: Call) -> Any:
        if not call.is_again:
            self.calls.append(call.name)
        return call.fail(self.fault) if len(self.calls) == self.number else call.carry_out()


@pytest.fixture
def failed(cluster: ManagedCluster) -> Iterator[Callable[[], str]]:
    """Runs of which the first attempt has failed of its hardware, and left hosts and a checkpoint to copy."""
    plan: list[ManagedPlan] = []

    def hand_over() -> str:
        number = len(cluster.script.requests)
        cluster.script.endings = [HARDWARE]
        if not plan:
            resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2, "keep_alive": "10m"}
            first = cluster.hand_over(resources=resources)
            plan.append(cluster.plan(first))
        else:
            first = cluster.hand_over_again(plan[0], f"digits-{number:017d}")
        cluster.store(first, *SAVED)
        cluster.end(first)
        return first

    with no_backoff():
        yield hand_over


@contextmanager
def stepping(cluster: ManagedCluster, step: Callable[[Call], Any]) -> Iterator[None]:
    cluster.clients.step = step
    try:
        yield
    finally:
        cluster.clients.step = lambda call: call.carry_out()


def calls_of_a_step(cluster: ManagedCluster, first: str) -> list[str]:
    """What a step asks of AWS in which nothing goes wrong."""
    seen = Cut(10_000)
    with stepping(cluster, seen):
        cluster.controller().job_ended(first)
    return seen.calls


def come_again(cluster: ManagedCluster, first: str) -> None:
    """The events come once more, when a step that was killed cannot live any more."""
    cluster.now += LEASE_SECONDS
    for _ in range(2):
        cluster.controller().job_ended(first)
    while cluster.wakes:
        cluster.wake_up()


def complaints(cluster: ManagedCluster, first: str, follows: bool) -> list[str]:
    """What is not as it should be once a step was finished after all."""
    second = name_attempt(first, 2)
    mine = [name for name in cluster.names if name in (first, second, name_attempt(first, 3))]
    records = cluster.records(first).attempts()
    told = [
        each for each in cluster.notices if f"launch status {first}" in each.text and "is Failed" in each.text
    ]
    copied = cluster.stored(second)
    wrong = {
        f"the jobs are {mine}": mine != ([first, second] if follows else [first]),
        f"{len(records)} records": [each.number for each in records] != [1],
        "nobody was told": not told,
        f"told {len(told)} times": len(told) > 2,
        f"the copy is {copied}": copied != ({name: name.encode() for name in SAVED} if follows else {}),
    }
    return [what for what, is_wrong in wrong.items() if is_wrong]


@EVERY
def test_a_step_that_is_killed_at_any_call_is_finished_once(
    cluster: ManagedCluster, failed: Callable[[], str], every: int
) -> None:
    calls = calls_of_a_step(cluster, failed())
    found = {}
    for number in range(1, len(calls) + 1, every):
        for after in (False, True):
            first = failed()
            with stepping(cluster, Cut(number, after)), suppress(Killed):
                cluster.controller().job_ended(first)
            come_again(cluster, first)
            found[f"{calls[number - 1]} ({number}), {after=}"] = complaints(cluster, first, follows=True)
    assert {call: wrong for call, wrong in found.items() if wrong} == {}
    assert {"sagemaker.CreateTrainingJob", "sagemaker.UpdateTrainingJob", "s3.CopyObject", "sns.Publish"} <= {
        *calls
    }


def fault_for(call: str, of_s3: Fault, of_others: Fault) -> Fault:
    return of_s3 if call.startswith("s3.") else of_others


FAULTS = {
    "throttled": partial(fault_for, of_s3=SLOW_DOWN, of_others=THROTTLED),
    "an odd answer": partial(fault_for, of_s3=PORTAL, of_others=PORTAL),
    "a lost answer": partial(fault_for, of_s3=LOST, of_others=LOST),
    "denied": partial(fault_for, of_s3=DENIED_S3, of_others=DENIED),
}
READS = ("cloudwatch-logs.DescribeLogStreams", "cloudwatch-logs.GetLogEvents")


@EVERY
@pytest.mark.parametrize("kind", FAULTS)
def test_a_step_that_fails_at_any_call_is_finished_once(
    cluster: ManagedCluster, failed: Callable[[], str], kind: str, every: int
) -> None:
    """But for lines that AWS refuses: nothing follows what nobody has read."""
    calls = calls_of_a_step(cluster, failed())
    found = {}
    for number in range(1, len(calls) + 1, every):
        call, first = calls[number - 1], failed()
        with stepping(cluster, Failing(number, FAULTS[kind](call))), suppress(Refusal):
            cluster.controller().job_ended(first)
        come_again(cluster, first)
        follows = not (kind == "denied" and call in READS)
        found[f"{call} ({number})"] = complaints(cluster, first, follows)
    assert {call: wrong for call, wrong in found.items() if wrong} == {}
