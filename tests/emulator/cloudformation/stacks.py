"""The stacks of an account and a region: what stands, what they export, and who imports it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import cloudformation_backends

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Resource


@dataclass(frozen=True)
class Output:
    """One output of a stack, and the name under which it is exported, if it is."""

    key: str
    value: Any
    export: str | None = None
    description: str | None = None


@dataclass
class Stack:
    """One stack, as it was last created or updated."""

    id: str
    name: str
    template_body: str
    template: dict[str, Any]
    status: str = "REVIEW_IN_PROGRESS"
    reason: str | None = None
    given_parameters: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    resources: dict[str, Resource] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    role_arn: str | None = None
    protected: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime | None = None

    @property
    def declared(self) -> dict[str, Any]:
        """The resources of its template."""
        declared: dict[str, Any] = self.template.get("Resources", {})
        return declared

    @property
    def exports(self) -> dict[str, Any]:
        """What it exports: values by name."""
        return {each.export: each.value for each in self.outputs.values() if each.export is not None}

    def tell(
        self, logical_id: str, resource_type: str, physical_id: str, status: str, reason: str | None = None
    ) -> None:
        """Add to its events."""
        event = {
            "StackId": self.id,
            "EventId": str(uuid4()),
            "StackName": self.name,
            "LogicalResourceId": logical_id,
            "PhysicalResourceId": physical_id,
            "ResourceType": resource_type,
            "Timestamp": datetime.now(UTC),
            "ResourceStatus": status,
        }
        self.events.append({**event, "ResourceStatusReason": reason} if reason else event)

    def become(self, status: str, reason: str | None = None) -> None:
        """Take on a status, which is an event of its own."""
        self.status, self.reason = status, reason
        self.tell(self.name, "AWS::CloudFormation::Stack", self.id, status, reason)


class Stacks:
    """The stacks of one account and region, deleted ones too."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.all: dict[str, Stack] = {}

    @staticmethod
    def of(account_id: str, region: str) -> Stacks:
        """Those of an account and region; gone where moto is reset."""
        backend = cloudformation_backends[account_id][region]
        stacks: Stacks = vars(backend).setdefault("emulated_stacks", Stacks(Account(account_id, region)))
        return stacks

    def standing(self) -> Iterator[Stack]:
        """Those that are not deleted."""
        return (stack for stack in self.all.values() if stack.status != "DELETE_COMPLETE")

    def find(self, name_or_id: str) -> Stack:
        """A stack by its name, or by its id, even where it is deleted."""
        if name_or_id in self.all:
            return self.all[name_or_id]
        for stack in self.standing():
            if stack.name == name_or_id:
                return stack
        raise ValidationError(name_or_id)

    def add(self, name: str, template_body: str, template: dict[str, Any]) -> Stack:
        """A new stack, nothing of which stands yet."""
        id_ = self.account.arn("cloudformation", f"stack/{name}/{uuid4()}")
        self.all[id_] = stack = Stack(id_, name, template_body, template)
        return stack

    def exports(self) -> dict[str, tuple[Stack, Any]]:
        """All exports: who exports and the value, by name."""
        return {name: (stack, value) for stack in self.standing() for name, value in stack.exports.items()}

    def importers(self, export: str) -> list[str]:
        """The names of the stacks that import an export."""
        return [stack.name for stack in self.standing() if export in stack.imports]

    def output(self, stack_name: str, key: str) -> Any:
        """The output of a stack, by the stack's name or id; None where either is not there."""
        for stack in self.standing():
            if stack_name in (stack.name, stack.id) and key in stack.outputs:
                return stack.outputs[key].value
        return None


def parameters_of(account: Account, template: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """What the parameters of a template are, given ones and defaults, those in Systems Manager looked up."""
    found = {}
    for name, declared in template.get("Parameters", {}).items():
        value = given.get(name, declared.get("Default"))
        if value is None:
            raise ValidationError(message=f"Parameters: [{name}] must have values")
        if declared["Type"].startswith("AWS::SSM::Parameter::Value"):
            value = account.client("ssm").get_parameter(Name=value)["Parameter"]["Value"]
        found[name] = value
    return found
