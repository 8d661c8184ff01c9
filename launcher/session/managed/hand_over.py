"""A run is handed over: its plan is kept for the controller, then its first attempt is submitted.

In this order, so that a launcher that is killed in between leaves a plan of a job that never was, and never a
job that nobody would go on with.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from launcher.backends.interface import BackendError
from launcher.failure_modes.model import Refusal
from launcher.planning.next_attempt import managed_bucket, mark_attempt
from launcher.planning.request_view import Request, RequestView
from launcher.planning.training_plan import PlannedController, TrainingPlan, rename_plan
from launcher.session.managed.records import ManagedPlan, Records
from launcher.session.submit_job import Start, Started
from launcher.text import __version__
from launcher.text.values import split_uri

_SECRET_BYTES = 32


def mark_plan(plan: TrainingPlan) -> TrainingPlan:
    """The plan of a run's first attempt: its request says of which run it is.

    A plan that cannot be sent stays as it is. Raises Refusal for a tuning job, BackendError where the plan's
    cluster has no controller, or one that would not hear of the job or not find its checkpoints.
    """
    if plan.operation != "CreateTrainingJob":
        raise Refusal(
            "a tuning job is not managed: the service goes on by itself when one of its jobs fails.",
            "Leave out --managed, or `tuning`.",
        )
    if plan.request is None or plan.package is None:
        return plan
    cluster = plan.job.get("cluster")
    if not cluster:
        raise BackendError(
            "the job names no cluster, and a run is managed by the controller of one.",
            "Name it (`cluster`, --cluster), or leave out --managed.",
        )
    if plan.controller is None:
        raise BackendError(
            f"the cluster {cluster} has no controller.",
            "Leave out --managed, or add `managed: true` to the cluster file and deploy it again "
            f"(`cdk deploy --all -c cluster={cluster}`).",
        )
    _check_reach(plan.request, plan.controller)
    bucket = plan.controller.records_bucket
    return replace(plan, request=mark_attempt(plan.request, bucket, str(plan.name), 1))


def _check_reach(request: Request, controller: PlannedController) -> None:
    """Raise BackendError for a job that the controller cannot go on with."""
    role = request.get("RoleArn")
    if role != controller.role_arn:
        raise BackendError(
            f"the controller hears of jobs of the cluster's role alone, and this one has {role}: nobody "
            "would go on with it.",
            "Leave out `role_arn`, or --managed.",
        )
    prefix = RequestView(request).checkpoints.prefix
    if prefix is not None and split_uri(prefix)[0] != controller.checkpoints_bucket:
        raise BackendError(
            f"the controller may read s3://{controller.checkpoints_bucket} alone, and the job's checkpoints "
            f"go to {prefix}: no other attempt could go on from them.",
            "Leave out `checkpoint.s3_uri`, or --managed.",
        )


def hand_over(
    plan: TrainingPlan,
    others: Sequence[TrainingPlan],
    start: Start,
    records: Callable[[str], Records],
) -> Started:
    """Keep the run for the controller and start its first attempt, once.

    Args:
        plan: the first attempt's, marked.
        others: those of the further instance types that it may fall back to, in their order.
        start: starts the first attempt.
        records: the records of a run by its first attempt's name.

    Raises what keeping and submitting raise; without the records nothing is submitted.
    """

    def send(named: TrainingPlan) -> str:
        records(str(named.name)).write_plan(_kept(named, others))
        return start.backend.submit(named, start.on_progress)

    return start.once(plan, send)


def _kept(plan: TrainingPlan, others: Sequence[TrainingPlan]) -> ManagedPlan:
    first, bucket = str(plan.name), managed_bucket(plan.request or {})
    requests = {}
    for each in (plan, *others):
        request = rename_plan(each, first).request or {}
        requests[_type_of(each)] = mark_attempt(request, bucket, first, 1)
    job = plan.spec
    if job is None:
        raise ValueError("a job file that could not be read has no plan to submit")
    return ManagedPlan(
        first=first,
        job=job.name,
        cluster=str(plan.job.get("cluster")),
        region=str(plan.region),
        requests=requests,
        max_retries=job.limits.max_retries,
        service_chooses=job.resources.instance_choice == "service",
        may_check_hosts=job.resources.with_infra_check().infra_check,
        secret=secrets.token_hex(_SECRET_BYTES),
        made_at=time.time(),
        version=__version__,
    )


def _type_of(plan: TrainingPlan) -> str:
    """The instance type that a plan is for; the preferred one of those among which the service chooses."""
    job = plan.spec
    return str(job.resources.instance_type if job is not None else None)
