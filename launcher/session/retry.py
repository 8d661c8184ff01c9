"""Whether a failed job is tried again: the cause decides, and how far the attempts came.

Pure: what happened goes in, the next step comes out. Carrying it out is the session's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.failure_modes.model import Retry

FIRST_WAIT_SECONDS = 300.0
LONGEST_WAIT_SECONDS = 3600.0
"""Capacity comes back in minutes to hours, and each try costs a submission: 5, 10, 20, 40, 60 minutes."""

_OF_HOSTS = ("HW", "EFA", "NCCL007")
"""How the codes begin of failure modes of hardware and of the fabric, and that of an initialisation that
never ends, which one bad link is enough for."""

ATTEMPTS_WITHOUT_PROGRESS = 2
"""So many in a row end the retries, whatever the budget: the cause does not pass by itself."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One job that failed.

    `retry` is what its diagnosis advises, `step` the furthest training step that it reported, None where
    it reported none, `cause` the code of what ended it, None where that is not known.
    """

    name: str
    instance_type: str
    retry: Retry
    step: float | None = None
    cause: str | None = None

    @property
    def blames_hosts(self) -> bool:
        """Whether a host or the network between the hosts was at fault: what AWS's health check tests."""
        if self.retry is Retry.OTHER_HOSTS:
            return True
        return self.cause is not None and self.cause.startswith(_OF_HOSTS)


@dataclass(frozen=True, slots=True)
class TryAgain:
    """The next attempt: on which instance type, after how long, and whether its hosts are tested first."""

    instance_type: str
    wait_seconds: float
    why: str
    infra_check: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No other attempt, and why not."""

    why: str


def after_failure(
    attempts: Sequence[Attempt],
    *,
    max_retries: int,
    instance_types: Sequence[str],
    service_chooses: bool = False,
    may_check_hosts: bool = True,
) -> TryAgain | GiveUp:
    """What to do after the last of these attempts failed.

    `instance_types` are those that the job may use, the preferred first; where `service_chooses`, each
    attempt has them all. Once an attempt failed of its hosts, those of all further ones are tested first,
    unless `may_check_hosts` is false. An attempt that got further than all before it does not use up
    `max_retries`; two in a row that did not end the retries. Waiting for capacity counts as well: an
    attempt that got no hosts made no progress, but says nothing about the cause, so only the budget
    bounds it.
    """
    last = attempts[-1]
    if last.retry is Retry.NEVER:
        return GiveUp("the cause does not pass by itself")
    if max_retries == 0:
        return GiveUp("limits.max_retries is 0")
    spent = sum(not advanced for advanced in _advances(attempts))
    if spent > max_retries:
        return GiveUp(f"limits.max_retries ({max_retries}) is used up")
    if _stuck(attempts):
        return GiveUp(f"{ATTEMPTS_WITHOUT_PROGRESS} attempts in a row got no further")
    later = last.retry is Retry.LATER
    again = _later(attempts, instance_types, service_chooses) if later else _at_once(last)
    if may_check_hosts and any(attempt.blames_hosts for attempt in attempts):
        return replace(again, why=f"{again.why}, after AWS's health check of the hosts", infra_check=True)
    return again


def _at_once(last: Attempt) -> TryAgain:
    hosts = "on other hosts" if last.retry is Retry.OTHER_HOSTS else "from the last checkpoint"
    return TryAgain(last.instance_type, 0.0, hosts)


def _advances(attempts: Sequence[Attempt]) -> list[bool]:
    """For each attempt, whether it got further than all before it."""
    furthest = float("-inf")
    advances = []
    for attempt in attempts:
        advances.append(attempt.step is not None and attempt.step > furthest)
        if attempt.step is not None:
            furthest = max(furthest, attempt.step)
    return advances


def _stuck(attempts: Sequence[Attempt]) -> bool:
    """Whether the last attempts that had hosts got no further than those before them."""
    ran = [
        advanced
        for attempt, advanced in zip(attempts, _advances(attempts), strict=True)
        if attempt.retry is not Retry.LATER
    ]
    return len(ran) >= ATTEMPTS_WITHOUT_PROGRESS and not any(ran[-ATTEMPTS_WITHOUT_PROGRESS:])


def _later(attempts: Sequence[Attempt], instance_types: Sequence[str], service_chooses: bool) -> TryAgain:
    """The next instance type at once; after the last one the first again, after a wait that doubles."""
    last = attempts[-1].instance_type
    position = instance_types.index(last) if last in instance_types else -1
    if position + 1 < len(instance_types) and not service_chooses:
        following = instance_types[position + 1]
        return TryAgain(following, 0.0, f"there is no capacity for {last}")
    rounds = 0
    for attempt in reversed(attempts):
        if attempt.retry is not Retry.LATER:
            break
        rounds += attempt.instance_type == last
    wait = min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (rounds - 1))
    tried = " and ".join(instance_types)
    return TryAgain(instance_types[0], wait, f"there is no capacity for {tried}")
