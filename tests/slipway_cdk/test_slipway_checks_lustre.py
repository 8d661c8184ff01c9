"""FSX004, the zone and the size of Lustre file systems on plain templates."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_fsx as fsx

from tests.slipway_cdk.checking import VPC, codes, efa_rules, group, judged, reported, rule, vpc_of_others
from tests.stacks.synthesis import new_stack

PORTS = [(988, 988), (1018, 1023)]
CLIENTS = {**VPC, "Efa": group(egress=[]), **efa_rules("Efa")}
SERVERS = {"Servers": group(egress=[])}


def file_system(*groups: str, subnets: tuple[str, ...] = ("Subnet",), **changes: Any) -> dict[str, Any]:
    lustre = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 125}
    lustre |= {key: changes.pop(key) for key in list(changes) if key in _LUSTRE}
    properties = {
        "FileSystemType": "LUSTRE",
        "StorageCapacity": 1200,
        "SubnetIds": [{"Ref": subnet} for subnet in subnets],
        "SecurityGroupIds": [{"Fn::GetAtt": [each, "GroupId"]} for each in groups or ("Servers",)],
        "LustreConfiguration": {key: value for key, value in lustre.items() if value is not None},
        **changes,
    }
    given = {key: value for key, value in properties.items() if value is not None}
    return {"Fs": {"Type": "AWS::FSx::FileSystem", "Properties": given}}


def opened(of: str, peer: str, *directions: str, ports: list[tuple[int, int]] | None = None) -> Any:
    return {
        f"{of}{direction}{peer}{first}": rule(direction, of, peer, "tcp", (first, last))
        for direction in directions
        for first, last in (PORTS if ports is None else ports)
    }


COMPLETE = {
    **CLIENTS,
    **SERVERS,
    **file_system(),
    **opened("Servers", "Servers", "ingress", "egress"),
    **opened("Servers", "Efa", "ingress", "egress"),
    **opened("Efa", "Servers", "ingress"),
}


def test_all_ports_both_ways_pass() -> None:
    assert codes(COMPLETE) == []


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("ServersingressServers988", "TCP 988 into the servers from one another"),
        ("ServersegressServers1018", "TCP 1018-1023 out of the servers to one another"),
        ("ServersingressEfa988", "TCP 988 into the servers from Stack/Efa"),
        ("ServersingressEfa1018", "TCP 1018-1023 into the servers from Stack/Efa"),
        ("ServersegressEfa988", "TCP 988 out of the servers to Stack/Efa"),
        ("EfaingressServers1018", "TCP 1018-1023 into Stack/Efa from the servers"),
    ],
)
def test_each_closed_port_is_named(missing: str, said: str) -> None:
    resources = {name: each for name, each in COMPLETE.items() if name != missing}

    (finding,) = judged(resources)

    assert (finding.code, finding.subject) == ("FSX004", "Stack/Fs")
    assert f"Closed: {said}." in finding.message


def test_client_without_any_address_to_go_to_needs_the_ports_out() -> None:
    resources = {**COMPLETE, "EfaAway": rule("egress", "Efa", "0.0.0.0/0", "tcp", (443, 443))}

    assert codes(resources) == [("FSX004", "Fs")]
    assert codes({**resources, **opened("Efa", "Servers", "egress")}) == []


@pytest.mark.parametrize("ports", [[(988, 988)], [(988, 988), (1021, 1023)], [(1021, 1023)]])
def test_part_of_the_ports_is_not_enough(ports: list[tuple[int, int]]) -> None:
    """Two public templates open 988 alone, or 1021-1023 alone."""
    both = opened("Servers", "Efa", "ingress", "egress", ports=ports)
    resources = {
        name: each for name, each in COMPLETE.items() if not name.startswith(("Serversi", "Serverse"))
    }
    own = opened("Servers", "Servers", "ingress", "egress")

    assert codes({**resources, **own, **both}) == [("FSX004", "Fs")]


def test_one_range_over_all_ports_passes() -> None:
    resources = {**CLIENTS, **SERVERS, **file_system()}
    wide = [(988, 1023)]
    resources |= opened("Servers", "Servers", "ingress", "egress", ports=wide)
    resources |= opened("Servers", "Efa", "ingress", "egress", ports=wide)
    resources |= opened("Efa", "Servers", "ingress", ports=wide)

    assert codes(resources) == []


def test_file_system_that_no_training_group_reaches_is_found() -> None:
    resources = {**CLIENTS, **SERVERS, **file_system(), **opened("Servers", "Servers", "ingress", "egress")}

    assert codes(resources) == [("FSX004", "Fs")]


def test_file_system_in_the_group_of_its_clients_passes() -> None:
    assert codes({**CLIENTS, **file_system("Efa")}) == []


def test_rules_by_address_pass_where_the_range_holds_the_subnet() -> None:
    range_ = [{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "CidrIp": "10.0.0.0/16"}]
    resources = {**VPC, **subnet(), "Servers": group(ingress=range_, egress=range_), **file_system()}

    assert "FSX004" not in {code for code, _ in codes(resources)}


def test_rules_by_address_fail_where_it_does_not() -> None:
    range_ = [{"IpProtocol": "tcp", "FromPort": 988, "ToPort": 1023, "CidrIp": "192.168.0.0/16"}]
    resources = {**VPC, **subnet(), "Servers": group(ingress=range_, egress=range_), **file_system()}

    assert ("FSX004", "Fs") in codes(resources)


def test_group_of_somebody_else_is_not_judged() -> None:
    assert codes({**VPC, **file_system(SecurityGroupIds=["sg-0123456789abcdef0"])}) == []


def test_other_kinds_of_file_systems_are_not_judged() -> None:
    assert codes({**VPC, **SERVERS, **file_system(FileSystemType="OPENZFS")}) == []


def test_file_system_with_efa_needs_all_traffic_in_its_group() -> None:
    efa = {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}, "StorageCapacity": 38400}

    assert codes({**COMPLETE, **file_system(**efa)}) == [
        ("EFA001", "Servers"),
        ("EFA002", "Servers"),
        ("EFA003", "Servers"),
    ]
    assert codes({**COMPLETE, **file_system("Servers", "Efa", **efa)}) == []


def test_default_port_of_the_cdk_alone_is_found() -> None:
    """`connections.allow_default_port_from` of the CDK's own construct opens 988 only."""
    stack = new_stack()
    vpc = vpc_of_others(stack)
    clients = ec2.SecurityGroup(stack, "Clients", vpc=vpc)
    lustre = fsx.LustreFileSystem(
        stack,
        "Lustre",
        vpc=vpc,
        vpc_subnet=ec2.Subnet.from_subnet_id(stack, "Subnet", "subnet-1"),
        storage_capacity_gib=1200,
        lustre_configuration={"deployment_type": fsx.LustreDeploymentType.SCRATCH_2},
    )
    lustre.connections.allow_default_port_from(clients)
    app = stack.node.root
    assert isinstance(app, cdk.App)

    assert reported(app) == [("FSX004", "Stack/Lustre")]


def subnet(name: str = "Subnet", zone: str = "us-west-2a") -> dict[str, Any]:
    properties = {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24", "AvailabilityZone": zone}
    return {name: {"Type": "AWS::EC2::Subnet", "Properties": properties}}


@pytest.mark.parametrize(
    ("zones", "found"),
    [
        pytest.param(["us-west-2a"], False, id="the same zone"),
        pytest.param(["us-west-2b", "us-west-2a"], False, id="one of the zones"),
        pytest.param(["us-west-2b"], True, id="another zone"),
        pytest.param(["us-west-2b", "us-west-2c"], True, id="other zones"),
    ],
)
def test_file_system_stands_in_a_zone_of_the_jobs(zones: list[str], found: bool) -> None:
    training = {name: each for zone in zones for name, each in subnet(f"In{zone[-1]}", zone).items()}
    resources = {**COMPLETE, **subnet(), **training}

    assert (("FSX002", "Fs") in codes(resources, training_subnets=list(training))) is found


def test_file_system_has_exactly_one_subnet() -> None:
    resources = {**COMPLETE, **file_system(subnets=("Subnet", "Other"))}

    assert codes(resources) == [("FSX002", "Fs")]


TIERED: dict[str, Any] = {
    "StorageType": "INTELLIGENT_TIERING",
    "StorageCapacity": None,
    "PerUnitStorageThroughput": None,
    "ThroughputCapacity": 4000,
    "DataReadCacheConfiguration": {"SizingMode": "NO_CACHE"},
    "MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000},
}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"DeploymentType": "SCRATCH_2", "PerUnitStorageThroughput": None, "StorageCapacity": 4800},
        {"DeploymentType": "PERSISTENT_1", "PerUnitStorageThroughput": 12, "StorageCapacity": 6000}
        | {"StorageType": "HDD"},
        {"StorageCapacity": {"Ref": "Capacity"}},
        {"PerUnitStorageThroughput": {"Ref": "Throughput"}},
        TIERED,
        {**TIERED, "ThroughputCapacity": {"Ref": "Throughput"}},
        {**TIERED, "DataReadCacheConfiguration": {"SizingMode": "USER_PROVISIONED", "SizeGiB": 32}},
        {"MetadataConfiguration": {"Mode": "USER_PROVISIONED", "Iops": 6000}},
    ],
)
def test_file_system_that_exists_passes(changes: dict[str, Any]) -> None:
    assert codes({**COMPLETE, **file_system(**changes)}) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"StorageCapacity": 1500}, "no PERSISTENT_2 file system of 1500 GiB"),
        ({"PerUnitStorageThroughput": None}, "PERSISTENT_2 needs one"),
        ({"PerUnitStorageThroughput": 200}, "200 MB/s per TiB does not exist for PERSISTENT_2"),
        ({"DeploymentType": "SCRATCH_2"}, "SCRATCH_2 has a fixed throughput"),
        ({"StorageType": "HDD"}, "is stored on SSD, not on HDD"),
        ({"MetadataConfiguration": {"Iops": 2000}}, "2000 IOPS"),
        ({"EfaEnabled": True}, "A file system with EFA needs a MetadataConfiguration"),
        ({**TIERED, "StorageCapacity": 1200}, "Intelligent-Tiering has no StorageCapacity"),
        ({**TIERED, "ThroughputCapacity": 5000}, "no Intelligent-Tiering of 5000 MB/s"),
        ({**TIERED, "ThroughputCapacity": None}, "needs a ThroughputCapacity and a"),
        ({**TIERED, "DeploymentType": "SCRATCH_2"}, "SCRATCH_2 has no Intelligent-Tiering"),
        (
            {**TIERED, "MetadataConfiguration": {"Mode": "AUTOMATIC"}},
            "6000 or 12000 IOPS, and none are given",
        ),
        ({**TIERED, "DataReadCacheConfiguration": {"SizeGiB": 31}}, "no read cache of 31 GiB"),
        (
            {"EfaEnabled": True, "MetadataConfiguration": {"Mode": "AUTOMATIC"}},
            "no file system with EFA of 1200 GiB",
        ),
    ],
)
def test_file_system_that_does_not_exist_is_found(changes: dict[str, Any], said: str) -> None:
    found = [each for each in judged({**COMPLETE, **file_system(**changes)}) if each.code == "LustreSize"]

    assert {each.subject for each in found} == {"Stack/Fs"}
    assert said in found[0].message


_LUSTRE = (
    "DataReadCacheConfiguration",
    "DeploymentType",
    "EfaEnabled",
    "MetadataConfiguration",
    "PerUnitStorageThroughput",
    "ThroughputCapacity",
)
