"""Templates: what their functions come to, and in which order their resources can be made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import NotEmulated, Resource

NO_VALUE = object()
_PLACEHOLDER = re.compile(r"\$\{(!?)([^}]+)\}")


class Unresolved(Exception):
    """A reference leads nowhere; the message is CloudFormation's."""


@dataclass
class Scope:
    """What the functions of one stack's template can refer to.

    Attributes:
        export: the value of an export by its name, None where there is none.
        output: the value of another stack's output, by region, stack and output; None where there is none.
        imported: the names of the exports that were asked for so far.
    """

    account: Account
    stack_id: str
    stack_name: str
    parameters: Mapping[str, Any]
    resources: Mapping[str, Resource]
    export: Callable[[str], Any]
    output: Callable[[str, str, str], Any]
    imported: set[str] = field(default_factory=set)

    def reference(self, name: str) -> Any:
        """What `Ref` answers."""
        pseudo = {
            "AWS::AccountId": self.account.id,
            "AWS::Region": self.account.region,
            "AWS::StackId": self.stack_id,
            "AWS::StackName": self.stack_name,
            "AWS::URLSuffix": "amazonaws.com",
            "AWS::Partition": "aws",
            "AWS::NoValue": NO_VALUE,
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.parameters:
            return self.parameters[name]
        if name in self.resources:
            return self.resources[name].physical_id
        raise Unresolved(f"Template format error: Unresolved resource dependencies [{name}] in the template")

    def attribute(self, name: str, attribute: str) -> Any:
        """What `Fn::GetAtt` answers."""
        if name not in self.resources:
            raise Unresolved(f"Template error: instance of Fn::GetAtt references undefined resource {name}")
        known = self.resources[name].attributes
        if attribute not in known:
            raise NotEmulated(f"the attribute {attribute} of {name}")
        return known[attribute]


def resolve(value: Any, scope: Scope) -> Any:
    """A part of a template with what its functions come to."""
    if isinstance(value, list):
        return [item for item in (resolve(each, scope) for each in value) if item is not NO_VALUE]
    if not isinstance(value, Mapping):
        return value
    if len(value) == 1:
        ((name, argument),) = value.items()
        if name == "Ref":
            return scope.reference(argument)
        if name.startswith("Fn::"):
            return _call(name, argument, scope)
    resolved = {key: resolve(each, scope) for key, each in value.items()}
    return {key: each for key, each in resolved.items() if each is not NO_VALUE}


def _call(name: str, argument: Any, scope: Scope) -> Any:
    match name:
        case "Fn::GetAtt":
            logical_id, attribute = argument if isinstance(argument, list) else argument.split(".", 1)
            return scope.attribute(logical_id, attribute)
        case "Fn::Join":
            separator, parts = argument
            return separator.join(str(each) for each in resolve(parts, scope))
        case "Fn::Split":
            separator, text = argument
            return resolve(text, scope).split(separator)
        case "Fn::Select":
            index, items = argument
            return resolve(items, scope)[int(index)]
        case "Fn::Sub":
            return _substitute(argument, scope)
        case "Fn::ToJsonString":
            return json.dumps(resolve(argument, scope))
        case "Fn::ImportValue":
            exported = resolve(argument, scope)
            scope.imported.add(exported)
            value = scope.export(exported)
            if value is None:
                raise Unresolved(f"No export named {exported} found.")
            return value
        case "Fn::GetStackOutput":
            wanted = resolve(argument, scope)
            region = wanted.get("Region", scope.account.region)
            value = scope.output(region, wanted["StackName"], wanted["OutputName"])
            if value is None:
                raise Unresolved(
                    f"No output {wanted['OutputName']} of the stack {wanted['StackName']} found."
                )
            return value
    raise NotEmulated(f"the function {name}")


def _substitute(argument: Any, scope: Scope) -> str:
    text, given = argument if isinstance(argument, list) else (argument, {})

    def found(match: re.Match[str]) -> str:
        literal, name = match.groups()
        if literal:
            return f"${{{name}}}"
        if name in given:
            return str(resolve(given[name], scope))
        if "." in name:
            return str(scope.attribute(*name.split(".", 1)))
        return str(scope.reference(name))

    return _PLACEHOLDER.sub(found, text)


def references(value: Any) -> Iterator[str]:
    """The names that a part of a template refers to: resources, parameters, pseudo parameters."""
    if isinstance(value, list):
        for each in value:
            yield from references(each)
    elif isinstance(value, Mapping):
        for name, argument in value.items():
            if name == "Ref":
                yield argument
            elif name == "Fn::GetAtt":
                yield argument[0] if isinstance(argument, list) else argument.split(".", 1)[0]
            elif name == "Fn::Sub":
                text = argument[0] if isinstance(argument, list) else argument
                yield from (found.split(".", 1)[0] for _, found in _PLACEHOLDER.findall(text))
                yield from references(argument)
            else:
                yield from references(argument)


def needs(declared: Mapping[str, Mapping[str, Any]], logical_id: str) -> list[str]:
    """The other resources of a template that must stand before one can be made."""
    resource = declared[logical_id]
    depends = resource.get("DependsOn", ())
    named = [depends] if isinstance(depends, str) else depends
    wanted = dict.fromkeys((*named, *references(resource.get("Properties", {}))))
    return [name for name in wanted if name in declared and name != logical_id]


def in_order(declared: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The resources of a template, each after those that it needs."""
    ordered: dict[str, None] = {}

    def place(logical_id: str, above: tuple[str, ...]) -> None:
        if logical_id in above:
            raise Unresolved(f"Circular dependency between resources: [{', '.join(above)}]")
        if logical_id not in ordered:
            for each in needs(declared, logical_id):
                place(each, (*above, logical_id))
            ordered[logical_id] = None

    for logical_id in declared:
        place(logical_id, ())
    return list(ordered)
