"""The stacks of a cluster as CloudFormation has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from launcher.aws.errors import aws_errors

GONE = "DELETE_COMPLETE"
"""The state of a stack, or of a resource, that was deleted."""

_KEPT = ("Retain", "RetainExceptOnCreate")
"""Values of DeletionPolicy (CloudFormation user guide, aws-attribute-deletionpolicy)."""


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
    kept: bool = False

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
    template: Mapping[str, Any]
    resources: tuple[StackResource, ...]

    @property
    def account(self) -> str:
        """The id of the account that it is in."""
        return self.id.split(":")[4]

    @property
    def partition(self) -> str:
        """The partition of AWS that it is in, such as aws."""
        return self.id.split(":")[1]

    def of_type(self, *types: str) -> tuple[StackResource, ...]:
        """Those of its resources that are there and of one of these types."""
        return tuple(each for each in self.resources if each.type in types and each.is_there)


def fetch_stack(cloudformation: Any, name: str) -> DeployedStack | None:
    """The stack of this name, or with this ARN; None where there is none.

    A stack that was deleted is found by its ARN alone. Raises AwsRefusal where AWS refuses or cannot be
    reached.
    """
    described = describe_stack(cloudformation, name)
    if described is None:
        return None
    with aws_errors(f"read the template of the stack {name} (cloudformation:GetTemplate)"):
        body = cloudformation.get_template(StackName=described["StackId"])["TemplateBody"]
    template: Mapping[str, Any] = json.loads(body) if isinstance(body, str) else body
    return DeployedStack(
        name=described["StackName"],
        id=described["StackId"],
        status=described["StackStatus"],
        reason=described.get("StackStatusReason") or "",
        created=described["CreationTime"],
        updated=described.get("LastUpdatedTime"),
        is_protected=bool(described.get("EnableTerminationProtection")),
        template=template,
        resources=fetch_resources(cloudformation, described["StackId"], template),
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


def fetch_resources(
    cloudformation: Any, stack: str, template: Mapping[str, Any] | None = None
) -> tuple[StackResource, ...]:
    """The resources of a stack; what outlives it is known with its template alone.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    declared = (template or {}).get("Resources", {})

    def listed() -> Iterator[StackResource]:
        pages = cloudformation.get_paginator("list_stack_resources").paginate(StackName=stack)
        for page in pages:
            for each in page["StackResourceSummaries"]:
                policy = declared.get(each["LogicalResourceId"], {}).get("DeletionPolicy")
                yield StackResource(
                    logical_id=each["LogicalResourceId"],
                    type=each["ResourceType"],
                    physical_id=each.get("PhysicalResourceId") or "",
                    status=each["ResourceStatus"],
                    reason=each.get("ResourceStatusReason") or "",
                    kept=policy in _KEPT,
                )

    with aws_errors(f"list the resources of the stack {stack} (cloudformation:ListStackResources)"):
        return tuple(listed())
