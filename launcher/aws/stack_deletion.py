"""Deleting stacks, and what CloudFormation says of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.aws.stacks import GONE, describe_stack
from launcher.failure_modes.refusal import AwsRefusal

POLL_SECONDS = 5.0
"""Between two looks at a stack that is being deleted."""

MOST_SECONDS = 3 * 3600.0
"""For the deletion of one stack: a file system takes some minutes; CloudFormation itself gives up earlier."""

DELETING, FAILED, SKIPPED = "DELETE_IN_PROGRESS", "DELETE_FAILED", "DELETE_SKIPPED"


@dataclass(frozen=True, slots=True)
class DeletionEvent:
    """What became of one resource when its stack was deleted, in CloudFormation's words."""

    logical_id: str
    type: str
    physical_id: str
    status: str
    reason: str


def unprotect(cloudformation: Any, stack: str) -> None:
    """Take the termination protection of a stack away. Raises AwsRefusal."""
    with aws_errors(f"unprotect the stack {stack} (cloudformation:UpdateTerminationProtection)"):
        cloudformation.update_termination_protection(StackName=stack, EnableTerminationProtection=False)


def delete_stack(cloudformation: Any, stack_id: str) -> None:
    """Ask CloudFormation to delete a stack, by its ARN. Raises AwsRefusal."""
    with aws_errors(f"delete the stack {stack_id} (cloudformation:DeleteStack)"):
        cloudformation.delete_stack(StackName=stack_id)


def wait_until_deleted(
    cloudformation: Any, stack_id: str, sleep: Callable[[float], None], on_wait: Callable[[int], None]
) -> str:
    """Wait for the end of a deletion; returns the stack's last state, DELETE_COMPLETE or another.

    `on_wait` is called before each further look, with the number of resources that are gone. Raises
    AwsRefusal where AWS refuses, cannot be reached, or takes longer than MOST_SECONDS.
    """
    waited = 0.0
    while waited < MOST_SECONDS:
        described = describe_stack(cloudformation, stack_id)
        status = GONE if described is None else str(described["StackStatus"])
        if status != DELETING:
            return status
        on_wait(sum(each.status == GONE for each in deletion_events(cloudformation, stack_id)))
        sleep(POLL_SECONDS)
        waited += POLL_SECONDS
    raise AwsRefusal(
        f"the stack {stack_id} is still being deleted after {MOST_SECONDS / 3600:g} hours.",
        "See in CloudFormation's console what it waits for; run this again, and it waits on.",
    )


def deletion_events(cloudformation: Any, stack_id: str) -> tuple[DeletionEvent, ...]:
    """The last word on each resource since the deletion of the stack began; it may be gone already.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """

    def since_the_start() -> Iterator[DeletionEvent]:
        pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        for page in pages:
            for each in page["StackEvents"]:  # the newest first
                of_the_stack = each.get("PhysicalResourceId") == each["StackId"]
                if of_the_stack and each["ResourceStatus"] == DELETING:
                    return
                if not of_the_stack:
                    yield DeletionEvent(
                        each["LogicalResourceId"],
                        each["ResourceType"],
                        each.get("PhysicalResourceId") or "",
                        each["ResourceStatus"],
                        each.get("ResourceStatusReason") or "",
                    )

    last: dict[str, DeletionEvent] = {}
    with aws_errors(f"read the events of the stack {stack_id} (cloudformation:DescribeStackEvents)"):
        for event in since_the_start():
            last.setdefault(event.logical_id, event)
    return tuple(last.values())


def kept_ids(cloudformation: Any, stack_id: str) -> set[str]:
    """The ids of what the stack let stay in its whole life: earlier updates keep resources, too.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"read the events of the stack {stack_id} (cloudformation:DescribeStackEvents)"):
        pages = cloudformation.get_paginator("describe_stack_events").paginate(StackName=stack_id)
        events = [each for page in pages for each in page["StackEvents"]]
    return {each.get("PhysicalResourceId") or "" for each in events if each["ResourceStatus"] == SKIPPED}


def fetch_deleted_stacks(cloudformation: Any, names: Collection[str]) -> dict[str, tuple[str, ...]]:
    """The ARNs of the stacks of these names that were deleted, the last one first; none where there is none.

    CloudFormation knows them for 90 days. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    found: dict[str, list[tuple[Any, str]]] = {}
    with aws_errors("look for stacks that were deleted (cloudformation:ListStacks)"):
        for page in cloudformation.get_paginator("list_stacks").paginate(StackStatusFilter=[GONE]):
            for each in page["StackSummaries"]:
                if each["StackName"] in names:
                    deleted = (each.get("DeletionTime") or each["CreationTime"], each["StackId"])
                    found.setdefault(each["StackName"], []).append(deleted)
    return {name: tuple(id_ for _, id_ in sorted(each, reverse=True)) for name, each in found.items()}
