"""What an update does to resources and stacks, on small templates."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from launcher.cluster.specification import ClusterSpec
from launcher.provisioning.updates import (
    Fate,
    ResourceChange,
    StackChange,
    StackFate,
    compare,
    ranges_to_keep,
)
from tests.stacks.synthesis import dev_spec, synthesize

VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
KEEP = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}


def subnet(cidr: str) -> dict[str, Any]:
    return {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr}}


def network(cidr: str = "10.0.0.0/26", **more: Any) -> dict[str, Any]:
    return {
        "Resources": {"Vpc": VPC, "Subnet": subnet(cidr), **more},
        "Outputs": {"Subnet": {"Value": {"Ref": "Subnet"}, "Export": {"Name": "net:Subnet"}}},
    }


def file_system(gib: int = 1200, **more: Any) -> dict[str, Any]:
    properties = {
        "StorageCapacity": gib,
        "SubnetIds": [{"Fn::ImportValue": "net:Subnet"}],
        "LustreConfiguration": {"DeploymentType": "SCRATCH_2"},
    }
    return {"Type": "AWS::FSx::FileSystem", "Properties": properties, **more}


def storage(**resources: Any) -> dict[str, Any]:
    return {"Resources": resources}


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def changed(before: dict[str, Any], after: dict[str, Any]) -> list[ResourceChange]:
    """What becomes of the resources of a stack on its own."""
    (stack,) = compare({"one": before}, {"one": after})
    return list(stack.resources)


def by_name(stacks: tuple[StackChange, ...]) -> dict[str, StackChange]:
    return {each.name: each for each in stacks}


def test_equal_templates_change_nothing_whatever_their_metadata() -> None:
    named = {"Resources": {"Vpc": {**VPC, "Metadata": {"aws:cdk:path": "net/Vpc"}}}}
    (stack,) = compare({"net": {"Resources": {"Vpc": VPC}}}, {"net": named})

    assert (stack.fate, stack.resources) == (StackFate.UNCHANGED, ())


def test_a_first_deployment_adds_everything() -> None:
    (stack,) = compare({}, {"net": network()})

    assert stack.fate is StackFate.NEW
    assert {each.fate for each in stack.resources} == {Fate.ADDED}


def test_a_property_that_can_change_changes_in_place() -> None:
    (change,) = changed(storage(Fs=file_system(1200)), storage(Fs=file_system(2400)))

    assert (change.fate, change.properties, change.loses_data) == (Fate.CHANGED, ("StorageCapacity",), False)


def test_a_property_inside_of_another_replaces_where_it_is_fixed() -> None:
    other = file_system()
    other["Properties"] = {**other["Properties"], "LustreConfiguration": {"DeploymentType": "SCRATCH_1"}}
    (change,) = changed(storage(Fs=file_system()), storage(Fs=other))

    assert (change.fate, change.properties) == (Fate.REPLACED, ("LustreConfiguration/DeploymentType",))
    assert change.loses_data


def test_replacement_goes_on_through_references_and_imports() -> None:
    stacks = by_name(
        compare(
            {"net": network(), "storage": storage(Fs=file_system())},
            {"net": network("10.0.4.0/24"), "storage": storage(Fs=file_system())},
        )
    )

    (moved,) = stacks["storage"].resources
    assert (moved.fate, moved.properties) == (Fate.REPLACED, ("SubnetIds",))


def test_replacement_goes_on_through_weak_references() -> None:
    weak = file_system()
    weak["Properties"] = {
        **weak["Properties"],
        "SubnetIds": [{"Fn::GetStackOutput": {"StackName": "net", "OutputName": "Subnet"}}],
    }
    stacks = by_name(
        compare(
            {"net": network(), "storage": storage(Fs=weak)},
            {"net": network("10.0.4.0/24"), "storage": storage(Fs=weak)},
        )
    )

    assert [each.fate for each in stacks["storage"].resources] == [Fate.REPLACED]
    assert stacks["net"].blocked == ()


def test_an_export_in_use_is_neither_changed_nor_removed() -> None:
    deployed = {"net": network(), "storage": storage(Fs=file_system())}
    value_changes = by_name(compare(deployed, {**deployed, "net": network("10.0.4.0/24")}))
    removed = by_name(
        compare(
            deployed,
            {"net": {"Resources": {"Vpc": VPC}}, "storage": storage(Bucket=bucket())},
        )
    )

    assert [(each.name, each.removed, each.importers) for each in value_changes["net"].blocked] == [
        ("net:Subnet", False, ("storage",))
    ]
    assert [(each.name, each.removed) for each in removed["net"].blocked] == [("net:Subnet", True)]
    assert removed["net"].fails


def test_an_export_is_free_once_its_importer_was_updated() -> None:
    deployed = {"net": network(), "storage": storage(Fs=file_system())}
    stacks = by_name(
        compare(deployed, {"storage": storage(Bucket=bucket()), "net": {"Resources": {"Vpc": VPC}}})
    )

    assert stacks["net"].blocked == ()


def test_an_orphaned_stack_still_holds_what_it_imports() -> None:
    stacks = by_name(
        compare({"net": network(), "queue": storage(Fs=file_system())}, {"net": {"Resources": {"Vpc": VPC}}})
    )

    assert stacks["queue"].fate is StackFate.ORPHANED
    assert [each.importers for each in stacks["net"].blocked] == [("queue",)]


def test_a_stack_without_resources_is_deleted() -> None:
    stacks = by_name(compare({"queue": storage(Fs=file_system(**KEEP), B=bucket())}, {"queue": {}}))

    assert stacks["queue"].fate is StackFate.DELETED
    assert {each.logical_id: each.fate for each in stacks["queue"].resources} == {
        "Fs": Fate.KEPT,
        "B": Fate.DELETED,
    }


def test_a_deleted_stack_imports_nothing_any_more() -> None:
    stacks = by_name(
        compare(
            {"net": network(), "queue": storage(Fs=file_system())},
            {"queue": {}, "net": {"Resources": {"Vpc": VPC}}},
        )
    )

    assert stacks["net"].blocked == ()


def test_a_stack_that_is_and_stays_without_resources_is_nothing() -> None:
    (stack,) = compare({}, {"queue": {}})

    assert stack.fate is StackFate.UNCHANGED


@pytest.mark.parametrize(
    ("deployed", "wanted", "stays"),
    [(KEEP, KEEP, True), ({}, {}, False), (KEEP, {}, False), ({}, KEEP, False)],
)
def test_the_old_one_of_a_replaced_resource_stays_where_both_templates_say_so(
    deployed: dict[str, str], wanted: dict[str, str], stays: bool
) -> None:
    before, after = file_system(**deployed), file_system(**wanted)
    after["Properties"] = {**after["Properties"], "KmsKeyId": "key"}
    (change,) = changed(storage(Fs=before), storage(Fs=after))

    assert (change.old_stays, change.loses_data) == (stays, True)


def test_a_key_holds_data_where_something_is_encrypted_with_it() -> None:
    key = {"Type": "AWS::KMS::Key", "Properties": {}}
    encrypted = bucket(BucketEncryption={"KeyId": {"Ref": "Key"}})
    (of_data,) = changed(storage(Key=key, B=encrypted), storage(B=encrypted))
    (of_messages,) = changed(storage(Key=key, B=bucket()), storage(B=bucket()))

    assert of_data.loses_data
    assert not of_messages.loses_data


def test_a_type_that_is_not_known_changes_in_place() -> None:
    old, new = ({"Type": "AWS::New::Thing", "Properties": {"Size": size}} for size in (1, 2))
    (change,) = changed(storage(T=old), storage(T=new))

    assert change.fate is Fate.CHANGED


def test_a_custom_resource_is_replaced_with_its_function() -> None:
    old, new = ({"Type": "Custom::Empty", "Properties": {"ServiceToken": token}} for token in "ab")
    (change,) = changed(storage(T=old), storage(T=new))

    assert change.fate is Fate.REPLACED


def test_a_fixed_name_is_taken_while_its_resource_is_replaced() -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "training", "Path": "/"}}
    moved = {"Type": "AWS::IAM::Role", "Properties": {"RoleName": "training", "Path": "/team/"}}
    (stack,) = compare({"access": storage(Role=role)}, {"access": storage(Role=moved)})

    assert stack.collisions == ("Role is to be made anew under the name training, which Role still has then",)


def test_new_addresses_may_not_overlap_those_that_are_there() -> None:
    deployed = {"net": network()}
    (overlapping,) = compare(deployed, {"net": network(More=subnet("10.0.0.0/24"))})
    (beside,) = compare(deployed, {"net": network(More=subnet("10.0.1.0/24"))})
    (elsewhere,) = compare(
        deployed,
        {"net": network(Vpc={"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/20"}})},
    )

    assert overlapping.collisions == (
        "the addresses 10.0.0.0/24 of More overlap with 10.0.0.0/26 of Subnet, which is still there then",
    )
    assert beside.collisions == elsewhere.collisions == ()


def test_a_folder_of_a_file_system_is_linked_once_at_a_time() -> None:
    def link(path: str, place: str) -> dict[str, Any]:
        properties = {"FileSystemId": {"Ref": "Fs"}, "FileSystemPath": path, "DataRepositoryPath": place}
        return {"Type": "AWS::FSx::DataRepositoryAssociation", "Properties": properties}

    a, b = link("/a", "s3://a"), link("/b", "s3://b")
    deployed = {"s": storage(Fs=file_system(), A=a, B=b)}
    (renumbered,) = compare(deployed, {"s": storage(Fs=file_system(), A=b)})
    (renamed,) = compare(deployed, {"s": storage(Fs=file_system(), A=link("/c", "s3://c"), B=b)})
    (moved,) = compare(deployed, {"s": storage(Fs=file_system(), A=link("/c", "s3://a/"), B=b)})

    assert renumbered.collisions == ("the folder /b of A overlaps with /b of B, which is still there then",)
    assert renamed.collisions == ()
    assert moved.collisions == ("s3://a, to which A is to lead, is linked to the folder /a until A is gone",)


def test_an_output_by_another_name_that_holds_the_same_is_no_change() -> None:
    def both(name: str, value: str, bucket: str = "Bucket") -> dict[str, Any]:
        made = {each: {"Type": "AWS::S3::Bucket"} for each in ("Bucket", "Other")}
        read = {"Fn::GetStackOutput": {"StackName": "owner", "OutputName": name}}
        reads = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": read}}
        return {
            "owner": {"Resources": made, "Outputs": {name: {"Value": {"Ref": bucket}}}},
            "reader": {"Resources": {"Reads": reads}, "Description": value},
        }

    deployed = both("One", "before")
    same, another = (compare(deployed, both("Two", "after", each)) for each in ("Bucket", "Other"))

    assert [each.resources for each in same] == [(), ()]
    assert [each.place for each in another[1].resources] == ["Reads"]


ZONES = {"availability_zones": ["us-west-2a", "us-west-2b"]}
NAMED = [
    {"cidr": "10.64.0.0/26", "nat_cidr": "10.64.0.128/28"},
    {"cidr": "10.64.0.64/26", "nat_cidr": "10.64.0.144/28"},
]
BY_HAND = {"cidr": "10.64.0.0/20", "subnets": NAMED}


def told(deployed: ClusterSpec, wanted: ClusterSpec) -> str | None:
    template, new = (synthesize(each).template("network") for each in (deployed, wanted))
    (change,) = compare({"network": template}, {"network": new})
    return ranges_to_keep(template, change)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("nat", "kept"),
    [
        ("per-zone", NAMED),
        (True, [NAMED[0], {"cidr": NAMED[1]["cidr"]}]),
        (False, [{"cidr": each["cidr"]} for each in NAMED]),
    ],
)
def test_the_ranges_that_would_move_are_told_as_the_file_takes_them(nat: Any, kept: Any) -> None:
    deployed = dev_spec(**ZONES, vpc={**BY_HAND, "nat": nat, "subnets": kept})
    wanted = dev_spec(**ZONES, vpc={"cidr": "10.64.0.0/20", "nat": nat})

    line = told(deployed, wanted)

    assert line is not None and yaml.safe_load(line) == {"subnets": kept}
    pinned = dev_spec(**ZONES, vpc={"cidr": "10.64.0.0/20", "nat": nat, **yaml.safe_load(line)})
    assert told(deployed, pinned) is None


def test_nothing_is_told_where_no_subnet_moves() -> None:
    assert told(dev_spec(), dev_spec(**ZONES)) is None
