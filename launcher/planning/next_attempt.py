"""What follows a failed attempt: another one or none, and the request of that other one.

The cause decides, how far the attempts came, and what they have cost. Pure: what happened goes in, the next
step comes out. A launch that follows its job and the controller of managed runs both decide here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

from launcher.cluster.names import RUNS_FOLDER
from launcher.failure_modes.model import Retry
from launcher.frozen import frozen
from launcher.planning.finished_request import (
    MANAGED_TAG,
    RESUMED_FROM_TAG,
    UNIQUE_LENGTH,
    build_resumed_request,
    digest_part,
    make_job_name,
    move_checkpoints,
)
from launcher.planning.job_cost import SHORTEST_RUN_SECONDS
from launcher.planning.request_view import BUDGET_VARIABLE, MANAGED_VARIABLE, CostLimit, Request, RequestView

FIRST_TAG = "slipway:first-attempt"
NUMBER_TAG = "slipway:attempt"
"""The tags of every attempt but the first: the first one's name, and the attempt's own number."""


FIRST_WAIT_SECONDS = 300.0
LONGEST_WAIT_SECONDS = 3600.0
"""Capacity comes back in minutes to hours, and each try costs a submission: 5, 10, 20, 40, 60 minutes."""

_OF_HOSTS = ("HW", "EFA", "NCCL007")
"""How the codes begin of failure modes of hardware and of the fabric, and that of an initialisation that
never ends, which one bad link is enough for."""

ATTEMPTS_WITHOUT_PROGRESS = 2
"""So many in a row end the retries, whatever the budget: the cause does not pass by itself."""


@frozen
class Attempt:
    """One job that failed.

    `retry` is what its diagnosis advises, `step` the furthest training step that it reported, None where
    it reported none, `cause` the code of what ended it, None where that is not known. `usd` is what it cost,
    None where no price is known.
    """

    name: str
    instance_type: str
    retry: Retry
    step: float | None = None
    cause: str | None = None
    usd: float | None = None

    @property
    def blames_hosts(self) -> bool:
        """Whether a host or the network between the hosts was at fault: what AWS's health check tests."""
        if self.retry is Retry.OTHER_HOSTS:
            return True
        return self.cause is not None and self.cause.startswith(_OF_HOSTS)


@frozen
class TryAgain:
    """The next attempt: on which instance type, after how long, and whether its hosts are tested first."""

    instance_type: str
    wait_seconds: float
    why: str
    infra_check: bool = False


@frozen
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


# What the attempts may cost together.


LEAST_USD = 0.01
"""The smallest budget that a request can hold; of less nothing is started."""


def spent_on(attempts: Sequence[Attempt]) -> float:
    """What the attempts cost together, in US dollars, as far as that is known."""
    return sum(attempt.usd or 0.0 for attempt in attempts)


def usd_left(max_usd: float, attempts: Sequence[Attempt]) -> float:
    """What the next attempt may cost, in US dollars."""
    return max(LEAST_USD, max_usd - spent_on(attempts))


def hold_to_budget(
    decision: TryAgain, attempts: Sequence[Attempt], seconds_left: int | None
) -> TryAgain | GiveUp:
    """The decision, unless what is left of the budget would end before the next attempt had started.

    `seconds_left` is for how long it pays for the next attempt's hosts; None where the job has no budget that
    can be told in time.
    """
    if any(attempt.usd is None for attempt in attempts):
        return GiveUp("what the attempts so far have cost is not known, and limits.max_usd bounds it")
    if seconds_left is not None and seconds_left < SHORTEST_RUN_SECONDS:
        return GiveUp(f"limits.max_usd is used up: the attempts so far cost {spent_on(attempts):,.2f} USD")
    return decision


# The request of the next attempt, made from the finished request of its instance type.


def name_attempt(first: str, number: int) -> str:
    """The name of an attempt of a managed run: it follows from the first one's name and its number.

    Whoever starts it, and however often, starts the same job.
    """
    if number == 1:
        return first
    digest = hashlib.sha256(f"{first}/{number}".encode()).digest()
    return make_job_name(first[: -UNIQUE_LENGTH - 1], digest_part(digest))


def budget_after(request: Request, attempts: Sequence[Attempt]) -> CostLimit | None:
    """What is left of the budget that a request holds; None where it holds none that has a bound."""
    budget = RequestView(request).budget
    if budget is None or budget.max_usd is None:
        return None
    return CostLimit(round(usd_left(budget.max_usd, attempts), 2), budget.usd_per_hour)


def managed_budget(requests: Mapping[str, Request]) -> float | None:
    """What all attempts of a run may cost, in US dollars, by its finished requests; None without a bound."""
    budgets = (RequestView(request).budget for request in requests.values())
    return next((each.max_usd for each in budgets if each is not None), None)


def build_attempt(
    request: Request,
    attempts: Sequence[Attempt],
    decision: TryAgain,
    *,
    resumes: bool,
    prefix: str | None = None,
) -> Request:
    """The request of the attempt after these, under its own name.

    Args:
        request: the finished request of the instance type that was decided, as the first attempt's.
        attempts: those that failed.
        decision: why and how there is another.
        resumes: whether it goes on from a checkpoint of the last of these.
        prefix: the S3 URI below which that checkpoint is, where the new attempt goes on in that very place;
            None for a place of its own.
    """
    first, number = attempts[0].name, len(attempts) + 1
    new = build_resumed_request(request, first, name_attempt(first, number))
    if prefix is not None:
        new = move_checkpoints(new, prefix)
    if decision.infra_check:
        new["InfraCheckConfig"] = {"EnableInfraCheck": True}
    left = budget_after(request, attempts)
    if left is not None:
        _cut_to_budget(new, left)
    origin = {RESUMED_FROM_TAG: attempts[-1].name} if resumes else {}
    kept = [tag for tag in new["Tags"] if tag["Key"] != RESUMED_FROM_TAG]
    return mark_attempt({**new, "Tags": kept}, managed_bucket(request), first, number, origin)


_PLACE = re.compile(
    rf"s3://(?P<bucket>[^/]+)/{RUNS_FOLDER}/(?P<first>[A-Za-z0-9-]{{1,63}})/attempt-(?P<number>\d{{1,4}})"
)


@frozen
class ManagedAttempt:
    """Which attempt of which managed run a job is: the bucket of the records, the first job's name, and the
    attempt's number from 1."""

    bucket: str
    first: str
    number: int


def managed_attempt(job: RequestView) -> ManagedAttempt | None:
    """Which attempt of a managed run a job is, by its request or description; None of any other job."""
    found = _PLACE.fullmatch(job.environment.get(MANAGED_VARIABLE, ""))
    if found is None or job.name != name_attempt(found["first"], int(found["number"])):
        return None
    return ManagedAttempt(found["bucket"], found["first"], int(found["number"]))


def managed_bucket(request: Request) -> str:
    """The bucket of the records of a request that was marked. Raises ValueError for another one."""
    found = _PLACE.fullmatch(RequestView(request).environment.get(MANAGED_VARIABLE, ""))
    if found is None:
        raise ValueError("the request is of no managed run")
    return found["bucket"]


def mark_attempt(
    request: Request, bucket: str, first: str, number: int, tags: Mapping[str, str] | None = None
) -> Request:
    """The request as that of an attempt of a managed run: for the controller, and for people who look."""
    place = f"s3://{bucket}/{RUNS_FOLDER}/{first}/attempt-{number}"
    mine = {MANAGED_TAG: "true", FIRST_TAG: first, NUMBER_TAG: str(number), **(tags or {})}
    kept = [tag for tag in request.get("Tags", ()) if tag["Key"] not in mine]
    return {
        **request,
        "Environment": {**RequestView(request).environment, MANAGED_VARIABLE: place},
        "Tags": [*kept, *({"Key": key, "Value": value} for key, value in mine.items())],
    }


def _cut_to_budget(request: dict[str, Any], left: CostLimit) -> None:
    view = RequestView(request)
    request["Environment"] = {**view.environment, BUDGET_VARIABLE: left.to_json()}
    paid = left.seconds(view.hosts or 1, view.keep_alive_seconds)
    if paid is not None and paid < view.max_runtime_seconds:
        request["StoppingCondition"] = {
            **deepcopy(request.get("StoppingCondition", {})),
            "MaxRuntimeInSeconds": paid,
        }
