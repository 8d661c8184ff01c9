"""Values of one stack as another reads them, so that the first can change without the second's leave.

An import (`Fn::ImportValue`) keeps CloudFormation from removing or replacing what it names until the
importing stack has let go of it, which it only does afterwards: a part of a cluster could not go in one
deployment. `Fn::GetStackOutput` reads an output instead when the reading stack is created or updated, and
holds nothing. Source: CloudFormation template reference, intrinsic-function-reference-getstackoutput.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import aws_cdk as cdk


def read_weakly(value: str, *, owner: cdk.Stack, reader: cdk.Stack, definition: Any = None) -> str:
    """A value of the stack `owner` for use in the stack `reader`; what holds no resource of it is given back.

    The owner exports it as well, under the name that the CDK gives by itself: stacks that were deployed
    before import it, and CloudFormation drops no export that is in use.

    Not `CrossStackReferences.produce(BOTH)`, which makes the same two outputs: its names are known only
    when all is synthesized, too late for the ids of cdk-nag's findings, and they stay when the resource is
    replaced. A reader whose template is the same as before is not deployed, and would go on with the old
    resource.

    Args:
        value: a reference to one resource of `owner`, or a text without any.
        owner: the stack of the resource.
        reader: the stack that uses the value.
        definition: the properties of a resource that can be replaced under the same logical id: when they
            change, so does the output's name, and every reader is deployed with it.
    """
    reference = owner.resolve(value)
    if owner.node.path == reader.node.path or not _is_reference(reference):
        return value
    reader.add_stack_dependency(owner)
    owner.export_value(value)
    name = "Weak" + "".join(_words(reference)) + (_digest(owner, definition) if definition else "")
    if owner.node.try_find_child(name) is None:
        cdk.CfnOutput(owner, name, value=value)
    return cdk.Fn.get_stack_output(owner.stack_name, name)


def _is_reference(resolved: Any) -> bool:
    match resolved:
        case {"Ref": str(name)}:
            return not name.startswith("AWS::")
        case {"Fn::GetAtt": [_, _]}:
            return True
    return False


def _words(reference: Any) -> list[str]:
    """The parts of a Ref or Fn::GetAtt that may stand in an output's name: letters and digits."""
    parts = reference["Fn::GetAtt"] if "Fn::GetAtt" in reference else [reference["Ref"]]
    return ["".join(filter(str.isalnum, part)) for part in parts]


def _digest(owner: cdk.Stack, definition: Any) -> str:
    text = json.dumps(owner.resolve(definition), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8].upper()
