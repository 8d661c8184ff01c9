"""A cluster that is deployed, updated and destroyed without leaving the process: the stacks of the app go
straight to the emulated CloudFormation, as `cdk deploy --all` and `cdk destroy --all` would bring them there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import boto3

from launcher.cluster.files import read_templates
from launcher.cluster.specification import ClusterSpec
from tests.stacks.synthesis import synthesize

REGION = "us-west-2"

Template = dict[str, Any]
Actions = Mapping[tuple[str, str], str]
"""What became of resources, by stack and logical id: added, changed, replaced, deleted, kept, left behind.

`kept` left its stack and stays as its policy says; `left behind` was to be deleted, and the service refused.
"""


@dataclass(frozen=True)
class Outcome:
    """What came of one command.

    Attributes:
        actions: what became of resources, in the stacks that were updated without a failure.
        failed: the stack at which the command stopped.
        reasons: what its events say of failures.
    """

    actions: Actions = field(default_factory=dict)
    failed: str | None = None
    reasons: tuple[str, ...] = ()


class Account:
    """An account of the emulator. Use inside `mock_aws`."""

    def __init__(self) -> None:
        self.cloudformation = self.client("cloudformation")
        # What `cdk bootstrap` leaves behind, as far as a template looks at it.
        self.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
        )

    def client(self, service: str) -> Any:
        return boto3.client(
            service, region_name=REGION, aws_access_key_id="testing", aws_secret_access_key="testing"
        )

    def templates(self) -> dict[str, Template]:
        """The templates of the stacks that stand, as GetTemplate answers them."""
        return {
            stack["StackName"]: self.cloudformation.get_template(StackName=stack["StackName"])["TemplateBody"]
            for stack in self.cloudformation.describe_stacks()["Stacks"]
        }

    def deploy(self, spec: ClusterSpec) -> Outcome:
        """`cdk deploy --all`: one stack after the other, until one fails. Stacks that the app lost stay."""
        return self.deploy_templates(wanted_templates(spec))

    def deploy_templates(self, wanted: Mapping[str, Template]) -> Outcome:
        """The same, of templates that are synthesized already."""
        actions: dict[tuple[str, str], str] = {}
        for name, template in wanted.items():
            deployed = self.templates().get(name)
            if template == deployed or (not template.get("Resources") and deployed is None):
                continue
            before = set(self._physical_ids(name)) if deployed is not None else set()
            seen = len(self._events(name)) if deployed is not None else 0
            id_, status = self._bring(name, template, deployed)
            events = self._events(id_)[seen:]
            if status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_COMPLETE"):
                return Outcome(actions, name, _failures(events))
            actions |= {(name, logical_id): action for logical_id, action in _actions(events, before)}
        return Outcome(actions)

    def destroy(self) -> Outcome:
        """`cdk destroy --all`: the stacks that stand, the last one first, until one fails."""
        for name in reversed([*self.templates()]):
            (stack,) = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
            self.cloudformation.delete_stack(StackName=name)
            (stack,) = self.cloudformation.describe_stacks(StackName=stack["StackId"])["Stacks"]
            if stack["StackStatus"] != "DELETE_COMPLETE":
                return Outcome({}, name, _failures(self._events(name)))
        return Outcome()

    def physical_id(self, stack: str, type_: str) -> str:
        """The only resource of a type in a stack."""
        found = self.cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
        (id_,) = [each["PhysicalResourceId"] for each in found if each["ResourceType"] == type_]
        return str(id_)

    def _bring(self, name: str, template: Template, deployed: Template | None) -> tuple[str, str]:
        """Create, update or delete a stack; its id, which it keeps when it is gone, and its status."""
        if not template.get("Resources"):
            # The command line deletes a stack that has nothing in it any more.
            (stack,) = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
            name = stack["StackId"]
            self.cloudformation.delete_stack(StackName=name)
        else:
            act = self.cloudformation.create_stack if deployed is None else self.cloudformation.update_stack
            act(StackName=name, TemplateBody=json.dumps(template))
        (stack,) = self.cloudformation.describe_stacks(StackName=name)["Stacks"]
        return str(stack["StackId"]), str(stack["StackStatus"])

    def _events(self, name: str) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.cloudformation.describe_stack_events(StackName=name)[
            "StackEvents"
        ]
        return events[::-1]

    def _physical_ids(self, name: str) -> list[str]:
        found = self.cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        return [each["LogicalResourceId"] for each in found]


def wanted_templates(spec: ClusterSpec) -> dict[str, Template]:
    """The templates of a cluster, in the order of deployment."""
    return dict(read_templates(synthesize(spec).folder))


def _actions(events: list[dict[str, Any]], before: set[str]) -> list[tuple[str, str]]:
    """What became of each resource of a stack, by the events of one deployment."""
    found = {}
    for event in events:
        id_, status = event["LogicalResourceId"], event["ResourceStatus"]
        if event["ResourceType"] == "AWS::CloudFormation::Stack":
            continue
        replaces = "creation of a new physical resource" in event.get("ResourceStatusReason", "")
        if replaces:
            found[id_] = "replaced"
        elif status in ("CREATE_COMPLETE", "UPDATE_COMPLETE"):
            found.setdefault(id_, "changed" if id_ in before else "added")
        elif found.get(id_) != "replaced":
            ends = {"DELETE_COMPLETE": "deleted", "DELETE_SKIPPED": "kept", "DELETE_FAILED": "left behind"}
            if status in ends:
                found[id_] = ends[status]
    return list(found.items())


def _failures(events: list[dict[str, Any]]) -> tuple[str, ...]:
    wanted = ("FAILED", "ROLLBACK_IN_PROGRESS")
    return tuple(
        each["ResourceStatusReason"]
        for each in events
        if each["ResourceStatus"].endswith(wanted) and "ResourceStatusReason" in each
    )
