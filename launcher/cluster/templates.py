"""What there is to know of a CloudFormation template: resources, what refers to what, exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Template = Mapping[str, Any]
"""A template as the JSON that the CDK writes, or GetTemplate answers."""

Resource = Mapping[str, Any]

_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}")
"""A reference inside of Fn::Sub; `${!Literal}` is none, nor is `${AWS::Region}`."""


_KEEPING = frozenset({"Retain", "RetainExceptOnCreate"})
"""Of DeletionPolicy and UpdateReplacePolicy (CloudFormation user guide, aws-attribute-deletionpolicy)."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference to a resource of the template, to an export, or to an output of another stack.

    `stack` is that of an output, which a weak reference (Fn::GetStackOutput) reads; else it is empty. `under`
    is the property that the reference stands under.
    """

    kind: Literal["resource", "export", "output"]
    name: str
    under: str
    stack: str = ""


@dataclass(frozen=True, slots=True)
class References:
    """What a value refers to: resources of its template, exports, and outputs as (stack, output)."""

    resources: frozenset[str]
    exports: frozenset[str]
    outputs: frozenset[tuple[str, str]]


def resources(template: Template) -> Mapping[str, Resource]:
    """The resources by their logical ids."""
    found: Mapping[str, Resource] = template.get("Resources") or {}
    return found


def exports(template: Template) -> dict[str, Any]:
    """The values that other stacks import, by the names of the exports."""
    outputs = template.get("Outputs") or {}
    return {
        _text(output["Export"]["Name"]): output.get("Value")
        for output in outputs.values()
        if "Export" in output
    }


def outputs(template: Template) -> dict[str, Any]:
    """The values of all outputs, by their logical ids."""
    return {name: output.get("Value") for name, output in (template.get("Outputs") or {}).items()}


def references(value: Any) -> References:
    """Everything that a value refers to, however deep."""
    found = list(each_reference(value))
    return References(
        frozenset(each.name for each in found if each.kind == "resource"),
        frozenset(each.name for each in found if each.kind == "export"),
        frozenset((each.stack, each.name) for each in found if each.kind == "output"),
    )


def without_names_of_outputs(value: Any, templates: Mapping[str, Template]) -> Any:
    """A value in which each weak reference has what the output holds, not what the output is called.

    `templates` are those of the stacks that are read, by name; what stands in none stays as it is.
    """
    if isinstance(value, list):
        return [without_names_of_outputs(each, templates) for each in value]
    if not isinstance(value, Mapping):
        return value
    inner = value.get("Fn::GetStackOutput")
    if isinstance(inner, Mapping):
        stack = _stack_name(inner.get("StackName"))
        held = outputs(templates.get(stack) or {})
        name = _text(inner.get("OutputName"))
        return {"Fn::GetStackOutput": [stack, held[name]]} if name in held else value
    return {key: without_names_of_outputs(each, templates) for key, each in value.items()}


def each_reference(value: Any, under: str = "") -> Iterator[Reference]:
    """Every reference in a value, in the order in which they stand, however deep."""
    if isinstance(value, list):
        for each in value:
            yield from each_reference(each, under)
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key == "Ref" and isinstance(inner, str):
            yield Reference("resource", inner, under)
        elif key == "Fn::GetAtt":
            name = inner.partition(".")[0] if isinstance(inner, str) else str(inner[0])
            yield Reference("resource", name, under)
        elif key == "Fn::ImportValue":
            yield Reference("export", _text(inner), under)
        elif key == "Fn::GetStackOutput" and isinstance(inner, Mapping):
            stack = _stack_name(inner.get("StackName"))
            yield Reference("output", _text(inner.get("OutputName")), under, stack)
        else:
            if key == "Fn::Sub":
                text = inner[0] if isinstance(inner, list) else inner
                for name in _SUBSTITUTION.findall(str(text)):
                    yield Reference("resource", name, under)
            yield from each_reference(inner, under if key.startswith("Fn::") else key)


def is_kept(resource: Resource) -> bool:
    """Whether a resource stays in the account when its stack, or the stack's part with it, is deleted."""
    return resource.get("DeletionPolicy") in _KEEPING


def is_kept_when_replaced(resource: Resource) -> bool:
    """Whether a resource stays in the account when another one takes its place."""
    return resource.get("UpdateReplacePolicy") in _KEEPING


def place(logical_id: str, resource: Resource) -> str:
    """Where a resource stands in the app, as the CDK writes it into the template; else its logical id."""
    path = str(resource.get("Metadata", {}).get("aws:cdk:path", logical_id))
    parts = path.split("/")[1:] if "/" in path else [path]
    return "/".join(part for part in parts if part not in ("Resource", "Default")) or logical_id


def as_answered(value: Any) -> Any:
    """A value as GetTemplate would answer it: CloudFormation keeps no character beyond ASCII, but a `?`."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub(r"[^\x00-\x7f]", "?", value)
    if isinstance(value, Mapping):
        return {as_answered(key): as_answered(each) for key, each in value.items()}
    return [as_answered(each) for each in value] if isinstance(value, list) else value


def _stack_name(value: Any) -> str:
    """The name in a stack's name or ARN (`arn:...:stack/NAME/...`)."""
    text = _text(value)
    return text.split("/")[1] if text.startswith("arn:") and "/" in text else text


def _text(value: Any) -> str:
    """A name; one that is made of references has its JSON for a name."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
