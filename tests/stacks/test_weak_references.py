"""A part of a cluster can go, or be replaced, in one deployment: nothing that stays holds on to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from launcher.cluster.names import PARTS
from launcher.provisioning.updates import create_only, values_at
from tests.stacks.synthesis import Synthesized, changed_spec, cluster, synthesize

LUSTRE = {"deployment": "PERSISTENT_2", "throughput": 500, "capacity_gib": 57600, "metadata": {}}
GONE: dict[str, dict[str, Any]] = {
    "Lustre": {"lustre": None},
    "queue": {"queue": None},
    "observability": {"observability": None},
    "managed": {"managed": False},
    "bucket": {"buckets": {"checkpoints": "our-checkpoints"}},
    "key": {"encryption": "aws-managed"},
    "everything": {
        "lustre": None,
        "queue": None,
        "observability": None,
        "encryption": "aws-managed",
        "managed": False,
    },
}


def large_with(**changes: Any) -> Synthesized:
    return synthesize(changed_spec("p5-large", **changes))


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("part", GONE)
def test_a_part_that_goes_takes_no_export_that_is_in_use(large: Synthesized, part: str) -> None:
    before, after = exports(large), exports(large_with(**GONE[part]))
    in_use = {name for each in PARTS for name in found(large.template(each), "Fn::ImportValue")}

    assert in_use
    assert {name: after.get(name) for name in in_use} == {name: before[name] for name in in_use}


@pytest.mark.parametrize("part", ["queue", "observability", "managed"])
def test_a_stack_without_its_part_stays_in_the_app_and_is_one_that_cloudformation_takes(part: str) -> None:
    synthesized = large_with(**GONE[part])
    stacks = json.loads((synthesized.folder / "manifest.json").read_text())["artifacts"]

    assert f"slipway-p5-large-{part}" in stacks
    (only,) = synthesized.template(part)["Resources"].values()
    assert only["Type"] == "AWS::CloudFormation::WaitConditionHandle"


@pytest.mark.parametrize("name", ["dev", "p5-large"])
def test_only_the_file_system_holds_on_to_the_network_it_stands_in(name: str) -> None:
    synthesized = cluster(name)
    imported = {part: set(found(synthesized.template(part), "Fn::ImportValue")) for part in PARTS}

    assert {part for part, names in imported.items() if names} == {"storage"}
    assert {each.split(":")[0] for each in imported["storage"]} == {f"slipway-{name}-network"}


def test_exports_of_the_network_stay_for_clusters_that_import_them(large: Synthesized) -> None:
    """All that stacks which were deployed before import: the VPC, both subnets and their zones, the group."""
    exported = {name for name in exports(large) if name.startswith("slipway-p5-large-network:")}

    assert len([name for name in exported if "trainingSubnet" in name]) == 4
    assert len([name for name in exported if "Efa" in name]) == 1
    assert len(exported) == 6


def test_what_is_read_is_there_and_is_exported_for_clusters_that_import_it(large: Synthesized) -> None:
    stacks = {f"slipway-p5-large-{part}": large.template(part) for part in PARTS}
    read = [each for part in PARTS for each in found(large.template(part), "Fn::GetStackOutput")]

    assert {each["StackName"].rpartition("-")[2] for each in read} == {
        "network", "storage", "queue", "access", "observability", "managed",
    }  # fmt: skip
    for each in read:
        outputs = stacks[each["StackName"]]["Outputs"]
        value = outputs[each["OutputName"]]["Value"]
        assert [output for output in outputs.values() if output["Value"] == value and "Export" in output]


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"lustre": {**LUSTRE, "efa": True}}, id="EFA"),
        pytest.param({"lustre": {**LUSTRE, "capacity_gib": 38400}}, id="size"),
        pytest.param({"encryption": "aws-managed"}, id="key"),
    ],
)
@pytest.mark.parametrize("part", ["observability", "manifest"])
def test_who_reads_a_file_system_is_deployed_when_it_is_replaced(part: str, changed: dict[str, Any]) -> None:
    """The CDK's command line skips a stack whose template is the same as before."""
    before, after = large_with(lustre=LUSTRE), large_with(**{"lustre": LUSTRE, **changed})

    assert of_the_file_system(before, part)
    assert not of_the_file_system(before, part) & of_the_file_system(after, part)


@pytest.mark.parametrize("part", ["access", "manifest"])
def test_who_reads_the_network_is_deployed_when_it_is_replaced(part: str) -> None:
    before, moved = large_with(lustre=None), large_with(lustre=None, vpc={"cidr": "10.4.0.0/16"})

    assert of_the_network(before, part)
    assert not of_the_network(before, part) & of_the_network(moved, part)


def test_nothing_that_is_read_weakly_feeds_what_cannot_be_changed_in_place(large: Synthesized) -> None:
    """A change set plans to replace whatever such a value feeds there: aws-cdk issue 38829."""
    for part in PARTS:
        for resource in large.template(part).get("Resources", {}).values():
            for path in create_only(resource["Type"]) or ():
                value = values_at(resource.get("Properties", {}), path)
                assert not list(found(value, "Fn::GetStackOutput")), (resource["Type"], path)


def exports(synthesized: Synthesized) -> dict[str, Any]:
    return {
        output["Export"]["Name"]: output["Value"]
        for part in PARTS
        for output in synthesized.template(part).get("Outputs", {}).values()
        if "Export" in output
    }


def found(value: Any, function: str) -> Iterator[Any]:
    """The arguments of each call of an intrinsic function."""
    if isinstance(value, list):
        for each in value:
            yield from found(each, function)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from [each] if key == function else found(each, function)


def of_the_file_system(synthesized: Synthesized, part: str) -> set[str]:
    """The outputs that name the file system, as far as the stack reads them."""
    read = {each["OutputName"] for each in found(synthesized.template(part), "Fn::GetStackOutput")}
    outputs = synthesized.template("storage")["Outputs"]
    (file_system,) = synthesized.resources("storage", "AWS::FSx::FileSystem")
    return {name for name in read if name in outputs and file_system in json.dumps(outputs[name]["Value"])}


def of_the_network(synthesized: Synthesized, part: str) -> set[str]:
    read = found(synthesized.template(part), "Fn::GetStackOutput")
    return {each["OutputName"] for each in read if each["StackName"].endswith("-network")}
