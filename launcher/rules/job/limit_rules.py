"""Rules on what a job may use up: its time, with spot capacity the waiting too, and its money."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.planning.job_cost import SHORTEST_RUN_SECONDS, host_price
from launcher.rules.job.subject import JobSubject
from launcher.text.values import exact_duration

# Spot capacity: the limits that come with it, and what cannot be kept on it.


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def max_wait_needs_spot(subject: JobSubject) -> Iterator[Finding]:
    """The service takes a waiting time with spot capacity only; otherwise it is left out of the request."""
    if subject.job.limits.max_wait is not None and not _is_spot(subject):
        yield job_file.INVALID_VALUE.at(
            ("limits", "max_wait"),
            "limits.max_wait only has a meaning with `capacity: spot`; it is left out of the request",
            remedy="Remove it, or set `resources.capacity: spot`.",
            severity=Severity.INFO,
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def waiting_includes_running(subject: JobSubject) -> Iterator[Finding]:
    """MaxWaitTimeInSeconds counts the run as well, so it cannot be less than MaxRuntimeInSeconds."""
    limits = subject.job.limits
    if _is_spot(subject) and limits.max_wait is not None and limits.max_wait < limits.max_runtime:
        yield job_file.BREAKS_API_MODEL.at(
            ("limits", "max_wait"),
            f"limits.max_wait is {limits.max_wait} s, less than max_runtime with {limits.max_runtime} s: the "
            "service would refuse the job, as the waiting time includes the run",
            remedy=f"Set max_wait to {limits.max_runtime} s or more; by default it is twice max_runtime.",
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def warm_pools_are_not_spot(subject: JobSubject) -> Iterator[Finding]:
    """A warm pool keeps hosts that spot capacity may take away."""
    keep_alive = subject.job.resources.keep_alive
    if keep_alive and _is_spot(subject):
        yield job_file.BREAKS_API_MODEL.at(
            ("resources", "keep_alive"),
            f"resources.keep_alive ({keep_alive} s) asks for a warm pool of spot hosts: the service would "
            "refuse the job",
            remedy="Remove `keep_alive`, or use `capacity: on-demand`.",
        )


def _is_spot(subject: JobSubject) -> bool:
    return subject.job.resources.capacity.kind == "spot"


# Money: what all attempts may cost together.


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def a_budget_has_a_price(subject: JobSubject) -> Iterator[Finding]:
    """What a job costs can only be bounded where it is known what an hour costs."""
    limits, resources = subject.job.limits, subject.job.resources
    if limits.max_usd is None or not subject.on_sagemaker:
        return
    if resources.capacity.training_plan is not None:
        yield job_file.INVALID_VALUE.at(
            ("limits", "max_usd"),
            "limits.max_usd bounds what is paid by the hour, and the hosts of a training plan are paid for "
            "as a whole",
            remedy="Remove it; `limits.max_runtime` bounds the time.",
        )
        return
    for instance_type in (resources.instance_type, *resources.instance_types):
        if host_price(instance_type, subject.plan.region) is None and limits.usd_per_hour is None:
            yield job_file.INVALID_VALUE.at(
                ("limits", "max_usd"),
                f"no price of {instance_type} is known, so nobody could say when limits.max_usd "
                f"({limits.max_usd:,.2f}) is reached",
                remedy="Give `limits.usd_per_hour`, what one such host costs an hour; see "
                "aws.amazon.com/sagemaker/ai/pricing.",
            )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def a_given_price_is_needed(subject: JobSubject) -> Iterator[Finding]:
    """A price of the job file stands in for one that is not known, and changes none that is."""
    limits, resources = subject.job.limits, subject.job.resources
    prices = [
        host_price(each, subject.plan.region) for each in (resources.instance_type, *resources.instance_types)
    ]
    if limits.usd_per_hour is None or None in prices:
        return
    yield job_file.INVALID_VALUE.at(
        ("limits", "usd_per_hour"),
        f"limits.usd_per_hour ({limits.usd_per_hour:,.2f}) is not used: the launcher knows what such "
        "a host costs",
        remedy="Remove it. `launch plan` shows the price, and of which day and region it is.",
        severity=Severity.INFO,
    )


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def a_budget_pays_for_a_start(subject: JobSubject) -> Iterator[Finding]:
    """A job whose budget ends in the minutes in which it starts has cost money and trained nothing."""
    view = subject.plan.view
    if view is None or not view.is_cut_by_budget or view.budget is None or not subject.on_sagemaker:
        return
    seconds = view.search.max_seconds if view.search is not None else view.max_runtime_seconds
    if seconds is not None and seconds < SHORTEST_RUN_SECONDS:
        yield job_file.INVALID_VALUE.at(
            ("limits", "max_usd"),
            f"limits.max_usd ({view.budget.max_usd:,.2f}) pays for {exact_duration(seconds)} of "
            f"{view.hosts} × {view.instance_type}: the job would be stopped about when its script starts",
            remedy="Raise it, or use fewer or cheaper hosts; `launch plan` shows what they cost an hour.",
            severity=Severity.WARNING,
        )
