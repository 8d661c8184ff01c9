"""The stacks of a cluster as CloudFormation has them, how they are deleted, what stays behind, and what is
still there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from launcher.aws.bounded_calls import DaemonPool
from launcher.aws.errors import aws_errors
from launcher.cluster.files import Template, is_kept, resources
from launcher.cluster.names import CLUSTER_TAG
from launcher.failure_modes.model import AwsRefusal, Refusal
from launcher.frozen import frozen

GONE = "DELETE_COMPLETE"
"""The state of a stack, or of a resource, that was deleted."""

_PLANNED = "REVIEW_IN_PROGRESS"
"""A stack that only has a change set: nothing of it was made, and it has no template."""

_NEVER_CAME_UP = "ROLLBACK_COMPLETE"

_AT_ONCE = 8
"""Stacks that are asked for at the same time; a cluster has six."""


@frozen
class StackResource:
    """A resource of a stack: its ids, its type, its state and what CloudFormation says about that.

    `kept` says whether it outlives its stack. The physical id is empty where nothing was created yet.
    """

    logical_id: str
    type: str
    physical_id: str
    status: str
    reason: str
    kept: bool

    @property
    def is_there(self) -> bool:
        """Whether CloudFormation made it and did not delete it since."""
        return bool(self.physical_id) and self.status != GONE


@frozen
class DeployedStack:
    """A stack with the template that was deployed last, and what came of it."""

    name: str
    id: str
    status: str
    reason: str
    created: datetime
    updated: datetime | None
    is_protected: bool
    template: Template
    resources: tuple[StackResource, ...]

    @property
    def account(self) -> str:
        """The id of the account that it is in."""
        return self.id.split(":")[4]

    @property
    def came_up(self) -> bool:
        """Whether it is more than planned; one whose creation was rolled back the CDK deletes, as nothing."""
        return self.status not in (_PLANNED, _NEVER_CAME_UP)

    @property
    def is_busy(self) -> bool:
        """Whether something is being done to it at the moment."""
        return self.status.endswith("_IN_PROGRESS") and self.status != _PLANNED

    @property
    def is_stuck(self) -> bool:
        """Whether it must be helped before it can be updated (CloudFormation user guide, troubleshooting)."""
        return self.status in ("UPDATE_ROLLBACK_FAILED", "DELETE_FAILED", "ROLLBACK_FAILED")

    def of_type(self, *types: str) -> tuple[StackResource, ...]:
        """Those of its resources that are there and of one of these types."""
        return tuple(each for each in self.resources if each.type in types and each.is_there)


def fetch_stacks(cloudformation: Any, cluster: str) -> tuple[DeployedStack, ...]:
    """Every stack `slipway-NAME-PART` of a cluster, by name, also of parts that the app does not have (now).

    Raises AwsRefusal where AWS refuses or cannot be reached, Refusal where a template is not JSON.
    """
    # The parts have no hyphen: the stacks of a cluster called dev-two are none of dev's.
    ours = re.compile(rf"slipway-{re.escape(cluster)}-[a-z]+")
    with aws_errors("look for the cluster's stacks (cloudformation:ListStacks)"):
        names = {
            each["StackName"]
            for page in cloudformation.get_paginator("list_stacks").paginate()
            for each in page["StackSummaries"]
            if ours.fullmatch(each["StackName"]) and each["StackStatus"] != GONE
        }
    pool = DaemonPool(_AT_ONCE)
    asked = [pool.submit(fetch_stack, cloudformation, name) for name in sorted(names)]
    return tuple(found for each in asked if (found := each.result()) is not None)


def fetch_stack(cloudformation: Any, name: str) -> DeployedStack | None:
    """The stack of this name, or with this ARN; None where there is none.

    A stack that was deleted is found by its ARN alone. Raises AwsRefusal where AWS refuses or cannot be
    reached, Refusal where its template is not JSON.
    """
    described = describe_stack(cloudformation, name)
    if described is None:
        return None
    template = {} if described["StackStatus"] == _PLANNED else _template(cloudformation, described)
    return DeployedStack(
        name=described["StackName"],
        id=described["StackId"],
        status=described["StackStatus"],
        reason=described.get("StackStatusReason") or "",
        created=described["CreationTime"],
        updated=described.get("LastUpdatedTime"),
        is_protected=bool(described.get("EnableTerminationProtection")),
        template=template,
        resources=_resources(cloudformation, described["StackId"], template),
    )


def describe_stack(cloudformation: Any, name: str) -> Mapping[str, Any] | None:
    """What CloudFormation says of a stack, by name or ARN; None where it knows none.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look for the stack {name} (cloudformation:DescribeStacks)"):
        try:
            (described,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        except cloudformation.exceptions.ClientError as error:
            said = error.response["Error"]
            # CloudFormation has no code of its own for it (API reference, DescribeStacks).
            if said["Code"] == "ValidationError" and "does not exist" in said["Message"]:
                return None
            raise
    found: Mapping[str, Any] = described
    return found


def _template(cloudformation: Any, described: Mapping[str, Any]) -> Template:
    name, id_ = described["StackName"], described["StackId"]
    with aws_errors(f"read the template of the stack {name} (cloudformation:GetTemplate)"):
        body = cloudformation.get_template(StackName=id_, TemplateStage="Original")["TemplateBody"]
    try:
        template = json.loads(body) if isinstance(body, str) else body
    except ValueError:
        template = None
    if not isinstance(template, Mapping):
        raise Refusal(
            f"the template of the stack {name} is not JSON, so it was not deployed by this app.",
            "Use another `name` in the cluster file, or take that stack away.",
        )
    return template


def _resources(cloudformation: Any, stack: str, template: Template) -> tuple[StackResource, ...]:
    declared = resources(template)

    def listed() -> Iterator[StackResource]:
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
        for page in pages:
            for each in page["StackResourceSummaries"]:
                yield StackResource(
                    logical_id=each["LogicalResourceId"],
                    type=each["ResourceType"],
                    physical_id=each.get("PhysicalResourceId") or "",
                    status=each["ResourceStatus"],
                    reason=each.get("ResourceStatusReason") or "",
                    kept=is_kept(declared.get(each["LogicalResourceId"], {})),
                )

    with aws_errors(f"list the resources of the stack {stack} (cloudformation:ListStackResources)"):
        return tuple(listed())


POLL_SECONDS = 5.0
"""Between two looks at a stack that is being deleted."""

MOST_SECONDS = 3 * 3600.0
"""For the deletion of one stack: a file system takes some minutes; CloudFormation itself gives up earlier."""

DELETING, FAILED, SKIPPED = "DELETE_IN_PROGRESS", "DELETE_FAILED", "DELETE_SKIPPED"


@frozen
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


def delete_function_logs(logs: Any, function: str) -> bool:
    """Delete the log group that Lambda made for a function; False where there is none.

    No stack has it among its resources: Lambda makes it when the function first runs, which the functions of
    a cluster last do when their stack is deleted. Raises AwsRefusal.
    """
    group = f"/aws/lambda/{function}"
    with aws_errors(f"delete the log group {group} (logs:DeleteLogGroup)"):
        try:
            logs.delete_log_group(logGroupName=group)
        except logs.exceptions.ResourceNotFoundException:
            return False
    return True


def fetch_tagged(tagging: Any, cluster: str) -> tuple[str, ...]:
    """The ARNs of everything in the region that carries a cluster's tag, by name.

    For some time after a deletion these may be of what is gone. Raises AwsRefusal where AWS refuses or
    cannot be reached.
    """
    with aws_errors("look for what carries the cluster's tag (tag:GetResources)"):
        pages = tagging.get_paginator("get_resources").paginate(
            TagFilters=[{"Key": CLUSTER_TAG, "Values": [cluster]}]
        )
        return tuple(sorted(each["ResourceARN"] for page in pages for each in page["ResourceTagMappingList"]))


def fetch_key_state(kms: Any, key: str) -> str | None:
    """The state of a KMS key, by id or ARN, such as Enabled or PendingDeletion; None if there is no such key.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the key {key} (kms:DescribeKey)"):
        try:
            state: str = kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
        except kms.exceptions.NotFoundException:
            return None
    return state


def fetch_queue_state(batch: Any, queue_arn: str) -> str | None:
    """Whether a queue of AWS Batch is ENABLED or DISABLED; None if there is no such queue.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the queue {queue_arn} (batch:DescribeJobQueues)"):
        queues = batch.describe_job_queues(jobQueues=[queue_arn])["jobQueues"]
    return str(queues[0]["state"]) if queues else None


def fetch_hyperpod(sagemaker: Any, cluster_arn: str) -> dict[str, Any] | None:
    """A HyperPod cluster as DescribeCluster tells of it; None if there is none.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the HyperPod cluster {cluster_arn} (sagemaker:DescribeCluster)"):
        try:
            found: dict[str, Any] = sagemaker.describe_cluster(ClusterName=cluster_arn)
        except sagemaker.exceptions.ResourceNotFound:
            return None
    return found


def fetch_subscribers(sns: Any, topic_arn: str) -> int | None:
    """How many have confirmed their subscription of a topic; None if there is no such topic.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the topic {topic_arn} (sns:GetTopicAttributes)"):
        try:
            attributes = sns.get_topic_attributes(TopicArn=topic_arn)["Attributes"]
        except sns.exceptions.NotFoundException:
            return None
    return int(attributes.get("SubscriptionsConfirmed", 0))
