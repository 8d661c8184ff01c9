"""Synthesized templates as the rules see them: one list of resources, every reference resolved.

A reference to a resource becomes that resource's id, whichever way it was written: `Ref`, `Fn::GetAtt`
of an id, an export and its import, an output of another or of a nested stack. What only the deployment
knows becomes `Unknown`, and no rule may find fault with that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from launcher.cluster.traffic import Unknown

_IDS = frozenset({"GroupId", "SubnetId", "VpcId", "RouteTableId", "NatGatewayId", "LaunchTemplateId", "Id"})
"""Attributes that are the same as `Ref`, on one type of resource or another."""

_NOTHING = object()
"""`AWS::NoValue`: the property is not there."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """One synthesized template.

    `stack` is the construct path of its stack, `name` the stack's name in CloudFormation, `nested` the
    templates of its nested stacks by the logical id of the resource that stands for them.
    """

    stack: str
    path: str
    body: Mapping[str, Any]
    name: str = ""
    region: str | None = None
    nested: Mapping[str, Template] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource: where it stands, and its properties with every reference resolved."""

    id: str
    type: str
    logical_id: str
    template: Template
    properties: Mapping[str, Any]


def read_template(path: Path, stack: str, region: str | None) -> Template:
    """Read a template of a cloud assembly, and those of its nested stacks.

    Raises:
        OSError: a file cannot be read.
        ValueError: a file is not JSON.
    """
    body = json.loads(path.read_text("utf-8"))
    files = _asset_files(path)
    nested = {}
    for logical_id, resource in body.get("Resources", {}).items():
        if resource["Type"] == "AWS::CloudFormation::Stack":
            address = json.dumps(resource.get("Properties", {}).get("TemplateURL", ""))
            file = next((file for digest, file in files.items() if digest in address), None)
            if file is not None and file.suffix == ".json":
                nested[logical_id] = read_template(file, f"{stack}/{logical_id}", region)
    return Template(stack, str(path), body, _stack_name(path) or stack, region, nested)


class Resolver:
    """The templates of an app, and what expressions in them mean."""

    def __init__(self, templates: Iterable[Template]) -> None:
        """Take the templates of one app."""
        self._stacks = [stack for template in templates for stack in _Stack(template, self).with_nested()]

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """All resources, in the order of the templates."""
        return tuple(resource for stack in self._stacks for resource in stack.resources())

    def value(self, template_file: str, expression: Any) -> Any:
        """What an expression means in the template of that file name; Unknown if there is no such."""
        for stack in self._stacks:
            if Path(stack.template.path).name == template_file:
                return stack.value(expression)
        return expression if isinstance(expression, str) else Unknown(_text(expression))

    @cached_property
    def exports(self) -> Mapping[str, tuple[_Stack, Any]]:
        """The exported outputs by their name in the account."""
        return {
            str(stack.value(output["Export"]["Name"])): (stack, output["Value"])
            for stack in self._stacks
            for output in stack.template.body.get("Outputs", {}).values()
            if "Export" in output
        }

    def output(self, stack_name: str, output: str) -> Any:
        """The output of a stack, by the stack's name in CloudFormation."""
        for stack in self._stacks:
            if stack.template.name == stack_name:
                return stack.output(output)
        return Unknown(f"{stack_name}.{output}")


class _Stack:
    """One stack: the scope in which the expressions of its template have a meaning."""

    def __init__(self, template: Template, app: Resolver, parent: _Stack | None = None, id: str = "") -> None:
        self.template, self._app, self._parent = template, app, parent
        self._nested = {name: _Stack(each, app, self, name) for name, each in template.nested.items()}
        self._parameters: Mapping[str, Any] = (
            parent.template.body["Resources"][id].get("Properties", {}).get("Parameters", {})
            if parent
            else {}
        )

    def with_nested(self) -> Iterator[_Stack]:
        yield self
        for nested in self._nested.values():
            yield from nested.with_nested()

    def resources(self) -> Iterator[Resource]:
        for logical_id, resource in self.template.body.get("Resources", {}).items():
            properties = self.value(resource.get("Properties", {}))
            # An `Fn::If` or `Fn::Transform` in place of all properties leaves none that are known.
            known = properties if isinstance(properties, Mapping) else {}
            yield Resource(self._id(logical_id), resource["Type"], logical_id, self.template, known)

    def output(self, name: str) -> Any:
        output = self.template.body.get("Outputs", {}).get(name)
        return Unknown(f"{self.template.stack}.{name}") if output is None else self.value(output["Value"])

    def value(self, written: Any) -> Any:
        match written:
            case list():
                return [value for each in written if (value := self.value(each)) is not _NOTHING]
            case {"Ref": str(name)} if len(written) == 1:
                return self._reference(name)
            case {"Fn::GetAtt": [str(name), str(attribute)]}:
                return self._attribute(name, attribute)
            case {"Fn::GetAtt": str(both)}:
                return self._attribute(*both.split(".", 1))
            case {"Fn::ImportValue": name}:
                return self._import(str(self.value(name)))
            case {"Fn::GetStackOutput": {"StackName": stack, "OutputName": str(output)}}:
                return self._app.output(str(self.value(stack)), output)
            case {"Fn::Join": [str(delimiter), list(parts)]}:
                return _joined(delimiter, self.value(parts))
            case {"Fn::Sub": str(text)}:
                return self._substituted(text)
            case {"Fn::Select": [index, list(choices)]} if str(index).isdigit():
                return self.value(choices[int(index)])
            case dict() if any(key.startswith("Fn::") for key in written):
                return Unknown(_text(written))
            case dict():
                values = {key: self.value(each) for key, each in written.items()}
                return {key: value for key, value in values.items() if value is not _NOTHING}
        return written

    def _id(self, logical_id: str) -> str:
        return f"{self.template.stack}/{logical_id}"

    def _reference(self, name: str) -> Any:
        if name in self.template.body.get("Resources", {}):
            return self._id(name)
        if name == "AWS::NoValue":
            return _NOTHING
        if name == "AWS::Region" and self.template.region:
            return self.template.region
        if name.startswith("AWS::"):
            return Unknown(f"${{{name}}}")
        if self._parent is not None and name in self._parameters:
            return self._parent.value(self._parameters[name])
        return Unknown(self._id(name))

    def _attribute(self, name: str, attribute: str) -> Any:
        kind, _, output = attribute.partition(".")
        if kind == "Outputs" and name in self._nested:
            return self._nested[name].output(output)
        if attribute in _IDS:
            return self._reference(name)
        properties = self.template.body.get("Resources", {}).get(name, {}).get("Properties", {})
        if attribute in properties:
            return self.value(properties[attribute])
        return Unknown(f"{self._id(name)}.{attribute}")

    def _import(self, name: str) -> Any:
        if name not in self._app.exports:
            return Unknown(name)
        stack, value = self._app.exports[name]
        return stack.value(value)

    def _substituted(self, text: str) -> str:
        if self.template.region:
            text = text.replace("${AWS::Region}", self.template.region)
        return Unknown(text) if "${" in text else text


def _joined(delimiter: str, parts: Sequence[Any]) -> str:
    text = delimiter.join(map(str, parts))
    return Unknown(text) if any(isinstance(part, Unknown) for part in parts) else text


def _text(expression: Any) -> str:
    return json.dumps(expression, sort_keys=True, default=str)


def _asset_files(template: Path) -> dict[str, Path]:
    """The files that go with a template, by the digest that names them in a bucket."""
    manifest = template.with_name(template.name.removesuffix(".template.json") + ".assets.json")
    if not manifest.exists():
        return {}
    files = json.loads(manifest.read_text("utf-8")).get("files", {})
    sources = {digest: each.get("source", {}).get("path") for digest, each in files.items()}
    return {digest: template.with_name(path) for digest, path in sources.items() if path}


def _stack_name(template: Path) -> str | None:
    """The stack's name in CloudFormation, from the manifest of the assembly."""
    manifest = template.with_name("manifest.json")
    if not manifest.exists():
        return None
    for name, artifact in json.loads(manifest.read_text("utf-8")).get("artifacts", {}).items():
        properties = artifact.get("properties", {})
        if properties.get("templateFile") == template.name:
            return str(properties.get("stackName", name))
    return None
