"""`Fn::GetStackOutput`, which moto does not know: the output of another stack of the account and region."""

from __future__ import annotations

from typing import Any

from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import cloudformation_backends

_clean_json = parsing.clean_json


def install() -> None:
    """Let moto's CloudFormation resolve the function; may be called more than once."""
    parsing.clean_json = _resolved


def _resolved(value: Any, resources: parsing.ResourceMap) -> Any:
    if not (isinstance(value, dict) and "Fn::GetStackOutput" in value):
        return _clean_json(value, resources)
    wanted = value["Fn::GetStackOutput"]
    backend = cloudformation_backends[resources["AWS::AccountId"]][resources["AWS::Region"]]
    for stack in backend.stacks.values():
        if stack.name == wanted["StackName"]:
            for output in stack.outputs or ():
                if output["OutputKey"] == wanted["OutputName"]:
                    return output["OutputValue"]
    raise ValidationError(
        message=f"Fn::GetStackOutput: {wanted['StackName']} has no output {wanted['OutputName']}"
    )
