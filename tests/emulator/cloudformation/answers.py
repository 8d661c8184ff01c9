"""CloudFormation's API, in place of moto's: what boto3 and the CDK's command line ask and are answered."""

from __future__ import annotations

import json
import re
from typing import Any

from moto.cloudformation.exceptions import AlreadyExistsException, ValidationError
from moto.cloudformation.models import Stack as MotoStack
from moto.cloudformation.responses import CloudFormationResponse
from moto.core.responses import ActionResult, EmptyResult

from tests.emulator.cloudformation.deletion import delete
from tests.emulator.cloudformation.deployment import Deployment, Wanted
from tests.emulator.cloudformation.stacks import Stack, Stacks, parameters_of

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")

NOT_UPDATABLE = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "UPDATE_ROLLBACK_FAILED", "DELETE_FAILED")


class Answers(CloudFormationResponse):
    """One request and its answer."""

    @property
    def stacks(self) -> Stacks:
        """The stacks of the account and region that the request goes to."""
        return Stacks.of(self.current_account, self.region)

    def create_stack(self) -> ActionResult:
        """CreateStack."""
        name = self._get_param("StackName")
        if any(stack.name == name for stack in self.stacks.standing()):
            raise AlreadyExistsException(f"Stack [{name}] already exists")
        wanted = self._wanted({}, {})
        stack = self.stacks.add(name, wanted.template_body, wanted.template)
        stack.protected = bool(self._get_param("EnableTerminationProtection", False))
        stack.role_arn = self._get_param("RoleARN")
        Deployment(self.stacks, stack, wanted).run()
        return ActionResult({"StackId": stack.id})

    def update_stack(self) -> ActionResult:
        """UpdateStack."""
        stack = self._stack()
        if stack.status in NOT_UPDATABLE:
            message = f"Stack:{stack.id} is in {stack.status} state and can not be updated."
            raise ValidationError(message=message)
        wanted = self._wanted(stack.given_parameters, stack.tags, stack.template_body)
        same = (stack.template, stack.parameters, stack.tags)
        if same == (wanted.template, wanted.parameters, wanted.tags):
            raise ValidationError(message="No updates are to be performed.")
        Deployment(self.stacks, stack, wanted).run()
        return ActionResult({"StackId": stack.id})

    def delete_stack(self) -> ActionResult:
        """DeleteStack; a stack that is not there is no mistake."""
        try:
            stack = self._stack()
        except ValidationError:
            return EmptyResult()
        if stack.status == "DELETE_COMPLETE":
            return EmptyResult()
        if stack.protected:
            raise ValidationError(
                message=f"Stack [{stack.name}] cannot be deleted while TerminationProtection is enabled"
            )
        retained = self._get_param("RetainResources", [])
        if retained and stack.status != "DELETE_FAILED":
            raise ValidationError(
                message="Invalid operation on stack. RetainResources can only be specified for stacks in the "
                "DELETE_FAILED state."
            )
        delete(self.stacks, stack, retained)
        return EmptyResult()

    def update_termination_protection(self) -> ActionResult:
        """UpdateTerminationProtection."""
        stack = self._stack()
        stack.protected = bool(self._get_param("EnableTerminationProtection"))
        return ActionResult({"StackId": stack.id})

    def describe_stacks(self) -> ActionResult:
        """DescribeStacks, all on one page."""
        name = self._get_param("StackName")
        found = [self.stacks.find(name)] if name else list(self.stacks.standing())
        return ActionResult({"Stacks": [_stack(stack) for stack in found]})

    def list_stacks(self) -> ActionResult:
        """ListStacks, deleted ones too, all on one page."""
        statuses = self._get_param("StackStatusFilter", [])
        found = [each for each in self.stacks.all.values() if not statuses or each.status in statuses]
        return ActionResult({"StackSummaries": [_summary(stack) for stack in found]})

    def describe_stack_events(self) -> ActionResult:
        """DescribeStackEvents, the newest first, all on one page."""
        return ActionResult({"StackEvents": self._stack().events[::-1]})

    def describe_stack_resources(self) -> ActionResult:
        """DescribeStackResources."""
        stack, wanted = self._stack(), self._get_param("LogicalResourceId")
        found = [each for each in _resources(stack) if wanted in (None, each["LogicalResourceId"])]
        return ActionResult({"StackResources": found})

    def describe_stack_resource(self) -> ActionResult:
        """DescribeStackResource."""
        stack, wanted = self._stack(), self._get_param("LogicalResourceId")
        for each in _resources(stack):
            if each["LogicalResourceId"] == wanted:
                return ActionResult({"StackResourceDetail": each})
        raise ValidationError(message=f"Resource {wanted} does not exist for stack {stack.name}")

    def list_stack_resources(self) -> ActionResult:
        """ListStackResources, all on one page."""
        return ActionResult({"StackResourceSummaries": _resources(self._stack())})

    def get_template(self) -> ActionResult:
        """GetTemplate; like CloudFormation, with a question mark for what is not ASCII."""
        return ActionResult({"TemplateBody": _NOT_ASCII.sub("?", self._stack().template_body)})

    def list_exports(self) -> ActionResult:
        """ListExports, all on one page."""
        found = [
            {"ExportingStackId": stack.id, "Name": name, "Value": value}
            for name, (stack, value) in self.stacks.exports().items()
        ]
        return ActionResult({"Exports": found})

    def list_imports(self) -> ActionResult:
        """ListImports; like CloudFormation, a refusal where nobody imports."""
        name = self._get_param("ExportName")
        importers = self.stacks.importers(name)
        if not importers:
            raise ValidationError(message=f"Export '{name}' is not imported by any stack.")
        return ActionResult({"Imports": importers})

    def create_change_set(self) -> ActionResult:
        """No change sets: moto's would go past the emulator."""
        raise ValidationError(message="Change sets are not emulated: deploy with --method direct.")

    def _stack(self) -> Stack:
        return self.stacks.find(self._get_param("StackName"))

    def _wanted(
        self, parameters: dict[str, str], tags: dict[str, str], template_body: str | None = None
    ) -> Wanted:
        if not (template_body and self._get_bool_param("UsePreviousTemplate", False)):
            address, body = self._get_param("TemplateURL"), self._get_param("TemplateBody")
            template_body = self._get_stack_from_s3_url(address) if address else body
        template = _parsed(template_body)
        # Through JSON, so that dates which YAML reads are the words that they are in a template.
        template = json.loads(json.dumps(template, default=lambda date: date.isoformat()))
        if not template.get("Resources"):
            message = "Template format error: At least one Resources member must be defined."
            raise ValidationError(message=message)
        given = {
            each["ParameterKey"]: parameters[each["ParameterKey"]]
            if each.get("UsePreviousValue")
            else each["ParameterValue"]
            for each in self._get_param("Parameters", [])
            if not each.get("UsePreviousValue") or each["ParameterKey"] in parameters
        }
        given_tags = {each["Key"]: each["Value"] for each in self._get_param("Tags", [])} or tags
        resolved = parameters_of(self.stacks.account, template, given)
        return Wanted(template_body, template, given, resolved, given_tags)


def install() -> None:
    """Let moto answer with these; may be called more than once."""
    for name, method in vars(Answers).items():
        if not name.startswith("__"):
            setattr(CloudFormationResponse, name, method)


def _parsed(template_body: str) -> dict[str, Any]:
    """A template's text as data; most are JSON, of which moto's reader of YAML makes the same, but slowly."""
    try:
        template: dict[str, Any] = json.loads(template_body)
    except json.JSONDecodeError:
        template = MotoStack.parse_template(template_body)
    return template


def _summary(stack: Stack) -> dict[str, Any]:
    named = {"StackId": stack.id, "StackName": stack.name}
    return {**named, "StackStatus": stack.status, "CreationTime": stack.created}


def _stack(stack: Stack) -> dict[str, Any]:
    outputs = [
        {"OutputKey": each.key, "OutputValue": str(each.value), "Description": each.description,
         "ExportName": each.export}
        for each in stack.outputs.values()
    ]  # fmt: skip
    return {
        **_summary(stack),
        "Description": stack.template.get("Description"),
        "StackStatusReason": stack.reason,
        "LastUpdatedTime": stack.updated,
        "EnableTerminationProtection": stack.protected,
        "RoleARN": stack.role_arn,
        "Parameters": [
            {"ParameterKey": name, "ParameterValue": str(value)}
            for name, value in stack.given_parameters.items()
        ],
        "Tags": stack.tags,  # moto makes the list
        "Outputs": outputs,
    }


def _resources(stack: Stack) -> list[dict[str, Any]]:
    latest = {event["LogicalResourceId"]: event for event in stack.events}
    return [
        {
            "StackId": stack.id,
            "StackName": stack.name,
            "LogicalResourceId": logical_id,
            "PhysicalResourceId": resource.physical_id,
            "ResourceType": stack.declared[logical_id]["Type"],
            "ResourceStatus": latest[logical_id]["ResourceStatus"],
            "Timestamp": latest[logical_id]["Timestamp"],
            "LastUpdatedTimestamp": latest[logical_id]["Timestamp"],
        }
        for logical_id, resource in stack.resources.items()
    ]
