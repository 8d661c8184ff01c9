"""What must hold of a managed run, whatever happened to it, by what the service has."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.planning.job_cost import spent_usd
from launcher.planning.next_attempt import managed_budget
from launcher.planning.request_view import RequestView
from tests.emulator.account import REGION
from tools.attack.managed.simulation import Simulation, attempts_of

_MINUTE = 60.0


def violations(played: Simulation) -> Iterator[str]:
    """What does not hold, in words."""
    yield from _attempts(played)
    yield from _stop(played)
    yield from _cost(played)
    yield from _end(played)
    for error in played.crashes:
        yield f"a step ended with {type(error).__name__}: {error}"


def _attempts(played: Simulation) -> Iterator[str]:
    names = list(played.jobs)
    if names != attempts_of(played):
        yield f"the attempts are {names}"
    for before, (name, job) in zip(list(played.jobs.values()), list(played.jobs.items())[1:], strict=False):
        if not before.fate.may_follow:
            yield f"{name} follows an attempt that ended so: {before.fate.kind}"
        if job.others_running:
            yield f"{name} was started while {job.others_running} ran"
    told = [each.name for each in played.records.attempts()]
    if told[: len(names)] != names[: len(told)]:
        yield f"the records are of {told}"


def _stop(played: Simulation) -> Iterator[str]:
    for name, job in played.jobs.items():
        if job.looked_after_stop:
            yield f"{name} was created by somebody who had looked after the run was stopped"
        creator = job.creator
        stopped = played.cluster.script.state_of(name) == "Stopped"
        if job.after_stop and not stopped and creator is not None and not creator.went_wrong:
            yield f"{name} was created after the run was stopped, and nobody stopped it"


def _cost(played: Simulation) -> Iterator[str]:
    budget = managed_budget(played.plan.requests)
    if budget is None:
        return
    described = [played.cluster.script.describe(name) for name in played.jobs]
    requests = [each for each in played.cluster.script.requests if each["TrainingJobName"] in played.jobs]
    spent = minute = 0.0
    for request, job in zip(requests, described, strict=True):
        view = RequestView(request)
        spent += spent_usd(view, REGION, job.get("BillableTimeInSeconds", 0)) or 0.0
        minute = max(minute, spent_usd(view, REGION, _MINUTE) or 0.0)
    if spent > budget + minute:
        yield f"{spent:.2f} USD were spent of {budget:.2f}"


def _end(played: Simulation) -> Iterator[str]:
    """Nothing more is to come: the run is at its end, or the dead-letter queue names it."""
    named = {message.name for message in played.dead}
    if named & {played.first, *played.jobs}:
        return
    running = [
        name for name in played.jobs if played.cluster.script.state_of(name) in ("InProgress", "Stopping")
    ]
    records = played.records.attempts()
    if running:
        yield f"{running} still run"
    elif len(records) < len(played.jobs):
        yield f"nobody has read why {list(played.jobs)[len(records)]} ended"
    elif records[-1].following is not None and not _is_stopped(played, len(records) + 1):
        yield f"attempt {len(records) + 1} was decided and never started"
    for number in range(1, len(records) + 1):
        about = f"attempt-{number}" if number <= len(played.jobs) else f"start-{number}"
        if not played.records.was_noticed(about):
            yield f"nobody was told of the end of attempt {number}"


def _is_stopped(played: Simulation, number: int) -> bool:
    claim = played.records.start_of(number)
    return claim is not None and claim.stops
