"""What an update has to know of a CloudFormation template: resources, references, exports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Template = Mapping[str, Any]
"""A template as the JSON that the CDK writes, or GetTemplate answers."""

Resource = Mapping[str, Any]

_SUBSTITUTION = re.compile(r"\$\{([A-Za-z0-9]+)(?:\.[A-Za-z0-9.]+)?\}")
"""A reference inside of Fn::Sub; `${!Literal}` is none, nor is `${AWS::Region}`."""


@dataclass(frozen=True, slots=True)
class References:
    """What a value refers to: resources of its template, exports, and outputs of other stacks."""

    resources: frozenset[str]
    exports: frozenset[str]
    outputs: frozenset[tuple[str, str]]
    """Stack and output of a weak reference, Fn::GetStackOutput."""


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
    found = list(_references(value))
    return References(
        frozenset(name for kind, name in found if kind == "resource"),
        frozenset(name for kind, name in found if kind == "export"),
        frozenset(
            (name.partition(" ")[0], name.partition(" ")[2]) for kind, name in found if kind == "output"
        ),
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


def _references(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for each in value:
            yield from _references(each)
    if not isinstance(value, Mapping):
        return
    for key, inner in value.items():
        if key == "Ref" and isinstance(inner, str):
            yield "resource", inner
        elif key == "Fn::GetAtt":
            yield "resource", inner.partition(".")[0] if isinstance(inner, str) else str(inner[0])
        elif key == "Fn::ImportValue":
            yield "export", _text(inner)
        elif key == "Fn::GetStackOutput" and isinstance(inner, Mapping):
            yield "output", f"{_stack_name(inner.get('StackName'))} {_text(inner.get('OutputName'))}"
        else:
            if key == "Fn::Sub":
                text = inner[0] if isinstance(inner, list) else inner
                yield from (("resource", name) for name in _SUBSTITUTION.findall(str(text)))
            yield from _references(inner)


def _stack_name(value: Any) -> str:
    """The name in a stack's name or ARN (`arn:...:stack/NAME/...`)."""
    text = _text(value)
    return text.split("/")[1] if text.startswith("arn:") and "/" in text else text


def _text(value: Any) -> str:
    """A name; one that is made of references has its JSON for a name."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
