"""The stacks of a cluster as CloudFormation has them: state, template and resources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from launcher.aws.bounded import DaemonPool
from launcher.aws.errors import aws_errors
from launcher.cluster.templates import Template, is_kept, resources
from launcher.failure_modes.refusal import Refusal

GONE = "DELETE_COMPLETE"
"""The state of a stack, or of a resource, that was deleted."""

_PLANNED = "REVIEW_IN_PROGRESS"
"""A stack that only has a change set: nothing of it was made, and it has no template."""

_NEVER_CAME_UP = "ROLLBACK_COMPLETE"

_AT_ONCE = 8
"""Stacks that are asked for at the same time; a cluster has six."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
