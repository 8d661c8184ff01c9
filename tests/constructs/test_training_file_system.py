"""The Lustre file system: its ports are open before it is created."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from constructs.training_file_system import TrainingFileSystem

from launcher.cluster.specification import LustreSpec
from tests.stacks.synthesis import new_stack, resources_of, template_of

CLIENTS = "sg-0123456789abcdef0"
RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


def synthesized(**lustre: Any) -> dict[str, Any]:
    stack = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-west-2a"]
    )
    subnet = ec2.Subnet.from_subnet_attributes(
        stack, "Subnet", subnet_id="subnet-0123456789abcdef0", availability_zone="us-west-2a"
    )
    clients = ec2.SecurityGroup.from_security_group_id(stack, "Clients", CLIENTS)
    TrainingFileSystem(
        stack,
        "FileSystem",
        vpc=vpc,
        subnet=subnet,
        clients=clients,
        lustre=LustreSpec.model_validate(lustre),
        removal_policy=cdk.RemovalPolicy.RETAIN,
    )
    return template_of(stack)


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
    (file_system,) = resources_of(template, "AWS::FSx::FileSystem").values()
    names = {name for type_ in RULES for name in resources_of(template, type_)}

    assert names <= set(file_system["DependsOn"])


def test_file_system_is_what_was_asked_for(template: dict[str, Any]) -> None:
    (file_system,) = resources_of(template, "AWS::FSx::FileSystem").values()
    properties = file_system["Properties"]

    assert properties["StorageCapacity"] == 2400
    assert properties["SubnetIds"] == ["subnet-0123456789abcdef0"]
    assert properties["LustreConfiguration"] == {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 250,
        "DataCompressionType": "LZ4",
    }
    assert file_system["DeletionPolicy"] == "Retain"


def test_slow_persistent_1_stands_on_disks() -> None:
    template = synthesized(deployment="PERSISTENT_1", throughput=12, capacity_gib=6000)
    (file_system,) = resources_of(template, "AWS::FSx::FileSystem").values()

    assert file_system["Properties"]["StorageType"] == "HDD"
    # FSx requires it with HDD.
    assert file_system["Properties"]["LustreConfiguration"]["DriveCacheType"] == "NONE"


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
