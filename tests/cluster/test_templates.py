"""What is read of a template: what refers to what, what is exported, where a resource stands."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.files import as_answered, exports, place, references


@pytest.mark.parametrize(
    ("value", "resources", "imports", "outputs"),
    [
        ({"Ref": "Vpc"}, {"Vpc"}, set(), set()),
        ({"Fn::GetAtt": ["Group", "GroupId"]}, {"Group"}, set(), set()),
        ({"Fn::GetAtt": "Group.GroupId"}, {"Group"}, set(), set()),
        ({"Fn::Sub": "${AWS::Region}:${Bucket}/${Role.Arn}/${!Not}"}, {"Bucket", "Role"}, set(), set()),
        ({"Fn::Sub": ["${A}", {"A": {"Ref": "Vpc"}}]}, {"A", "Vpc"}, set(), set()),
        ([{"Fn::Join": ["", ["x", {"Fn::ImportValue": "net:Subnet"}]]}], set(), {"net:Subnet"}, set()),
        (
            {"Fn::GetStackOutput": {"StackName": "net", "OutputName": "Subnet"}},
            set(),
            set(),
            {("net", "Subnet")},
        ),
        (
            {"Fn::GetStackOutput": {"StackName": "arn:aws:cloudformation::1:stack/net/u", "OutputName": "S"}},
            set(),
            set(),
            {("net", "S")},
        ),
        ("Ref", set(), set(), set()),
    ],
)  # fmt: skip
def test_references_of_a_value(value: Any, resources: Any, imports: Any, outputs: Any) -> None:
    found = references(value)

    assert (found.resources, found.exports, found.outputs) == (resources, imports, outputs)


def test_exports_have_their_names_and_values() -> None:
    template = {"Outputs": {"A": {"Value": {"Ref": "Vpc"}, "Export": {"Name": "net:A"}}, "B": {"Value": "b"}}}

    assert exports(template) == {"net:A": {"Ref": "Vpc"}}


def test_a_resource_is_called_by_its_place_in_the_app() -> None:
    named = {"Metadata": {"aws:cdk:path": "slipway-dev-storage/FileSystem/Resource"}}

    assert place("FileSystem8A8E25C0", named) == "FileSystem"
    assert place("FileSystem8A8E25C0", {}) == "FileSystem8A8E25C0"


def test_characters_beyond_ascii_are_compared_as_cloudformation_keeps_them() -> None:
    assert as_answered({"Tags": [{"Value": "Zürich"}]}) == {"Tags": [{"Value": "Z?rich"}]}
