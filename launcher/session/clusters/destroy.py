"""The end of a cluster: its stacks one after the other, what keeps them from going, and what is left.

Everything that is done here can be done again: killed in the middle, it goes on where it stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from launcher.aws.bounded import DaemonPool
from launcher.aws.bucket_contents import deny_writes, empty_bucket, stop_access_logs
from launcher.aws.clients import Clients
from launcher.aws.leftovers import delete_function_logs, fetch_tagged
from launcher.aws.stack_deletion import (
    DELETING,
    FAILED,
    DeletionEvent,
    delete_stack,
    deletion_events,
    fetch_deleted_stacks,
    kept_ids,
    unprotect,
    wait_until_deleted,
)
from launcher.aws.stacks import GONE, DeployedStack
from launcher.cluster.stack_names import PARTS, stack_name
from launcher.failure_modes.refusal import AwsRefusal
from launcher.session.clusters.survey import (
    BUCKET,
    FUNCTION,
    Survey,
    buckets_that_go,
    log_buckets_that_go,
)

TRIES = 3
"""How often a stack is deleted whose buckets are not empty again, as access logs come late."""

_TELL_EVERY = 10_000
"""Deleted objects of a bucket from one message to the next."""

Tell = Callable[[str], None]
"""Called with a sentence for each thing that is done, and while something takes long."""


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What there is when the stacks are gone: ARNs of what was kept on purpose, and of what is left over.

    Where its tags could not be read, `unseen` says why, and both are empty.
    """

    kept: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    unseen: str | None = None


def destroy(
    survey: Survey, clients: Clients, *, tell: Tell, sleep: Callable[[float], None] = time.sleep
) -> Aftermath:
    """Delete the stacks of a cluster that was looked at, the manifest's first, and see what is left.

    What the templates keep is kept; buckets that go are emptied. Raises AwsRefusal where AWS refuses, with
    CloudFormation's reason for each resource that could not be deleted.
    """
    for stack in survey.stacks:
        _delete(stack, clients, survey.region, tell, sleep)
    return look_after(survey, clients, tell)


def look_after(survey: Survey, clients: Clients, tell: Tell) -> Aftermath:
    """Delete the logs of the functions that are gone, and find what still carries the cluster's tag.

    Stacks that an earlier run deleted count as well, for the 90 days that CloudFormation knows them.
    """
    region = survey.region
    cloudformation = clients("cloudformation", region)
    stack_ids = _stacks_that_are_gone(survey, cloudformation)
    events = [event for each in stack_ids for event in deletion_events(cloudformation, each)]
    functions = {each.physical_id for each in events if each.type == FUNCTION and each.status == GONE}
    for function in sorted(functions.union(survey.functions)):
        if delete_function_logs(clients("logs", region), function):
            tell(f"deleted the log group of the function {function}")
    try:
        tagged = fetch_tagged(clients("resourcegroupstaggingapi", region), survey.name)
    except AwsRefusal as refusal:
        return Aftermath(unseen=f"{refusal.message} {refusal.remedy}")
    kept = {each.physical_id for each in survey.kept}
    kept |= {id_ for each in stack_ids for id_ in kept_ids(cloudformation, each)}
    gone = {each.physical_id for each in events if each.status == GONE} - kept
    there = [arn for arn in tagged if not _is_among(arn, gone)]
    return Aftermath(
        tuple(arn for arn in there if _is_among(arn, kept)),
        tuple(arn for arn in there if not _is_among(arn, kept)),
    )


def _delete(
    stack: DeployedStack, clients: Clients, region: str, tell: Tell, sleep: Callable[[float], None]
) -> None:
    cloudformation = clients("cloudformation", region)
    if stack.is_protected:
        unprotect(cloudformation, stack.id)
        tell(f"{stack.name} is no longer protected from deletion")
    status = stack.status

    def gone(resources: int) -> None:
        tell(f"deleting {stack.name}: {resources} resources gone")

    for _ in range(TRIES):
        if status != DELETING:
            _empty(stack, clients("s3", region), tell)
            tell(f"deleting {stack.name}")
            delete_stack(cloudformation, stack.id)
        status = wait_until_deleted(cloudformation, stack.id, sleep, gone)
        if status == GONE:
            tell(f"deleted {stack.name}")
            return
        failures = [each for each in deletion_events(cloudformation, stack.id) if each.status == FAILED]
        if not _are_filled_buckets(failures):
            break
        tell(f"{stack.name}: a bucket was written into meanwhile; emptying it again")
    raise _not_deleted(stack, status, failures)


def _empty(stack: DeployedStack, s3: Any, tell: Tell) -> None:
    """Empty the buckets of a stack, all at once; first nobody delivers access logs any more."""
    logs = [each.physical_id for each in log_buckets_that_go(stack)]
    others = [each.physical_id for each in buckets_that_go(stack) if each.physical_id not in logs]
    pool = DaemonPool(max(len(logs) + len(others), 1))

    def on_each(buckets: list[str], do: Callable[[str], None]) -> None:
        doing: list[Future[None]] = [pool.submit(_unless_gone, s3, do, each) for each in buckets]
        for each in doing:
            each.result()

    def emptied(bucket: str) -> None:
        told = 0

        def count(done: int) -> None:
            nonlocal told
            if done - told >= _TELL_EVERY:
                told = done
                tell(f"{bucket}: {done:,} versions deleted")

        empty_bucket(s3, bucket, count)
        tell(f"emptied {bucket}")

    on_each(others, lambda bucket: stop_access_logs(s3, bucket))
    on_each(logs, lambda bucket: deny_writes(s3, bucket))
    on_each([*others, *logs], emptied)


def _unless_gone(s3: Any, do: Callable[[str], None], bucket: str) -> None:
    try:
        do(bucket)
    except AwsRefusal as refusal:
        # An earlier run, or somebody, deleted it already.
        response = getattr(refusal.__cause__, "response", {})
        if response.get("Error", {}).get("Code") != "NoSuchBucket":
            raise


def _are_filled_buckets(failures: list[DeletionEvent]) -> bool:
    return bool(failures) and all(
        each.type == BUCKET and "not empty" in each.reason.lower() for each in failures
    )


def _not_deleted(stack: DeployedStack, status: str, failures: list[DeletionEvent]) -> AwsRefusal:
    told = "\n".join(f"  {each.type} {each.physical_id}: {each.reason}" for each in failures)
    return AwsRefusal(
        f"the stack {stack.name} could not be deleted; it is {status}."
        + (f" What CloudFormation says:\n{told}" if told else f" {stack.reason}"),
        "Take away what stands in the way, then run this again: it goes on where it stopped.",
    )


def _stacks_that_are_gone(survey: Survey, cloudformation: Any) -> list[str]:
    """The ARNs of all stacks of the cluster that were deleted, of earlier clusters of its name too.

    What an earlier one kept is there on purpose, and what it deleted may be told for hours.
    """
    names = {stack_name(survey.name, part) for part in PARTS}
    return [id_ for ids in fetch_deleted_stacks(cloudformation, names).values() for id_ in ids]


def _is_among(arn: str, ids: set[str]) -> bool:
    return any(arn == id_ or arn.endswith((f":{id_}", f"/{id_}")) for id_ in ids if id_)
