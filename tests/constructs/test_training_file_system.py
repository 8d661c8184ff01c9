"""The Lustre file system: its ports are open before it is created."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from constructs.training_file_system import ClusterFileSystem

from launcher.cluster.specification import LustreSpec
from tests.slipway_cdk.checking import vpc_of_others
from tests.stacks.synthesis import new_stack, resources_of, template_of

CLIENTS = "sg-0123456789abcdef0"
RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


def synthesized(*, reach_any_address: bool = True, **lustre: Any) -> dict[str, Any]:
    stack = new_stack()
    subnet = ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0123456789abcdef0", availability_zone="us-west-2a"
    )
    clients = ec2.SecurityGroup.from_security_group_id(stack, "Clients", CLIENTS)
    ClusterFileSystem(
        stack,
        "FileSystem",
        vpc=vpc_of_others(stack),
        subnet=subnet,
        clients=clients,
        clients_reach_any_address=reach_any_address,
        lustre=LustreSpec.model_validate(lustre),
        encryption_key=None,
        buckets={},
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    return template_of(stack)


def file_system_in(template: dict[str, Any]) -> dict[str, Any]:
    (file_system,) = resources_of(template, "AWS::FSx::FileSystem").values()
    return file_system


def properties(**lustre: Any) -> dict[str, Any]:
    """What is asked of FSx for a file system."""
    found: dict[str, Any] = file_system_in(synthesized(**lustre))["Properties"]
    return found


PERSISTENT_2 = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 1200}


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    return synthesized(deployment="PERSISTENT_2", throughput=250, capacity_gib=2400)


@pytest.mark.parametrize("ports", [(988, 988), (1018, 1023)])
@pytest.mark.parametrize(
    ("of", "direction", "peer"),
    [
        ("servers", "in", "clients"),
        ("servers", "out", "clients"),
        ("servers", "in", "servers"),
        ("servers", "out", "servers"),
        ("clients", "in", "servers"),
    ],
)
def test_lustre_ports_are_open(
    template: dict[str, Any], ports: tuple[int, int], of: str, direction: str, peer: str
) -> None:
    assert (of, direction, peer, *ports) in rules(template)


def test_clients_get_no_egress_rule_that_could_strip_their_way_out(template: dict[str, Any]) -> None:
    assert not [rule for rule in rules(template) if rule[:2] == ("clients", "out")]


def test_file_system_waits_for_every_rule(template: dict[str, Any]) -> None:
    file_system = file_system_in(template)
    names = {name for type_ in RULES for name in resources_of(template, type_)}

    assert names <= set(file_system["DependsOn"])


def test_file_system_is_what_was_asked_for(template: dict[str, Any]) -> None:
    file_system = file_system_in(template)
    found = file_system["Properties"]

    assert found["StorageCapacity"] == 2400
    assert found["SubnetIds"] == ["subnet-0123456789abcdef0"]
    assert found["LustreConfiguration"] == {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 250,
        "DataCompressionType": "LZ4",
    }
    assert file_system["DeletionPolicy"] == "Retain"


def test_isolated_clients_get_the_rules_that_lead_to_the_servers() -> None:
    template = synthesized(reach_any_address=False, deployment="SCRATCH_2", capacity_gib=1200)
    file_system = file_system_in(template)
    names = {name for type_ in RULES for name in resources_of(template, type_)}

    assert {("clients", "out", "servers", 988, 988), ("clients", "out", "servers", 1018, 1023)} <= rules(
        template
    )
    assert names <= set(file_system["DependsOn"])


def test_file_system_with_efa_stands_in_the_group_of_the_clients_too() -> None:
    template = synthesized(
        deployment="PERSISTENT_2", throughput=1000, capacity_gib=4800, metadata="automatic", efa=True
    )
    file_system = file_system_in(template)
    everything = [
        each["Properties"]
        for type_ in RULES
        for each in resources_of(template, type_).values()
        if each["Properties"]["IpProtocol"] == "-1"
    ]

    assert CLIENTS in file_system["Properties"]["SecurityGroupIds"]
    assert len(file_system["Properties"]["SecurityGroupIds"]) == 2
    assert len(everything) == 2
    assert file_system["Properties"]["LustreConfiguration"]["EfaEnabled"] is True
    assert file_system["Properties"]["LustreConfiguration"]["MetadataConfiguration"] == {"Mode": "AUTOMATIC"}


def test_metadata_iops_and_backups_are_asked_for() -> None:
    found = properties(**PERSISTENT_2, metadata={"iops": 6000}, backup={"retention_days": 14})
    configuration = found["LustreConfiguration"]

    assert configuration["MetadataConfiguration"] == {"Iops": 6000, "Mode": "USER_PROVISIONED"}
    assert configuration["AutomaticBackupRetentionDays"] == 14


def test_backups_and_maintenance_come_when_they_were_asked_for() -> None:
    backup = {"retention_days": 14, "start": "03:00"}
    found = properties(**PERSISTENT_2, backup=backup, maintenance="sun 04:30")
    configuration = found["LustreConfiguration"]

    assert configuration["DailyAutomaticBackupStartTime"] == "03:00"
    assert configuration["WeeklyMaintenanceStartTime"] == "7:04:30"  # the week begins with Monday, 1


@pytest.mark.parametrize(
    ("cache", "configured"),
    [
        ("none", {"SizingMode": "NO_CACHE"}),
        ("proportional", {"SizingMode": "PROPORTIONAL_TO_THROUGHPUT_CAPACITY"}),
        ({"gib": 4096}, {"SizingMode": "USER_PROVISIONED", "SizeGiB": 4096}),
    ],
)
def test_tiered_storage_has_a_throughput_and_a_cache_and_no_size(cache: Any, configured: Any) -> None:
    tiering = {"throughput_mbps": 8000, "read_cache": cache}
    found = properties(deployment="PERSISTENT_2", intelligent_tiering=tiering, metadata={"iops": 6000})

    assert found["StorageType"] == "INTELLIGENT_TIERING"
    assert "StorageCapacity" not in found
    assert found["LustreConfiguration"] == {
        "DeploymentType": "PERSISTENT_2",
        "DataCompressionType": "LZ4",
        "ThroughputCapacity": 8000,
        "DataReadCacheConfiguration": configured,
        "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
    }


def test_association_mirrors_what_it_was_asked_to() -> None:
    links = [
        {"path": "/data", "s3_uri": "s3://corpus/a", "auto_import": ["new", "changed"]},
        {"path": "/out", "s3_uri": "s3://corpus/b", "import_on_create": False, "auto_export": ["new"]},
    ]
    template = synthesized(deployment="SCRATCH_2", capacity_gib=1200, associations=links)
    first, second = (
        each["Properties"] for each in resources_of(template, "AWS::FSx::DataRepositoryAssociation").values()
    )

    assert (first["FileSystemPath"], first["DataRepositoryPath"]) == ("/data", "s3://corpus/a")
    assert (first["BatchImportMetaDataOnCreate"], second["BatchImportMetaDataOnCreate"]) == (True, False)
    assert first["S3"] == {"AutoImportPolicy": {"Events": ["NEW", "CHANGED"]}}
    assert second["S3"] == {"AutoExportPolicy": {"Events": ["NEW"]}}


def test_slow_persistent_1_stands_on_disks() -> None:
    found = properties(deployment="PERSISTENT_1", throughput=12, capacity_gib=6000)

    assert found["StorageType"] == "HDD"
    # FSx requires it with HDD.
    assert found["LustreConfiguration"]["DriveCacheType"] == "NONE"


def rules(template: dict[str, Any]) -> set[tuple[str, str, str, int, int]]:
    """Every rule as (group, direction, peer, first port, last port)."""

    def who(group: Any) -> str:
        return "clients" if group == CLIENTS else "servers"

    found = set()
    for direction, type_, peer in zip(
        ("in", "out"), RULES, ("SourceSecurityGroupId", "DestinationSecurityGroupId"), strict=True
    ):
        for rule in resources_of(template, type_).values():
            properties = rule["Properties"]
            assert properties["IpProtocol"] == "tcp"
            ports = (properties["FromPort"], properties["ToPort"])
            found.add((who(properties["GroupId"]), direction, who(properties[peer]), *ports))
    return found
