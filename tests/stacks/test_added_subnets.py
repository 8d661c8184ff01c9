"""New subnets in a VPC that is there already: where they lie, where they lead, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from constructs.slipway_checks import SlipwayChecks
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.json import JSONSnapshotExtension

from launcher.cluster.specification import ClusterSpec
from stacks.slipway_app import add_stacks
from tests.slipway_cdk.checking import reported
from tests.stacks.synthesis import Synthesized, dev_spec, new_app, synthesize

VPC, GROUP = "vpc-0123456789abcdef0", "sg-0123456789abcdef0"
NAT, TABLES = "nat-0123456789abcdef0", ["rtb-0123456789abcdef0", "rtb-0123456789abcdef1"]
ZONES = ["us-west-2a", "us-west-2b"]


def guest(
    *, zones: list[str] | None = None, existing: dict[str, Any] | None = None, vpc: Any = None, **added: Any
) -> ClusterSpec:
    """A cluster with new subnets in 10.1.64.0/18 of a VPC, behind its NAT gateway unless told otherwise."""
    way_out = {} if "route_table_ids" in added else {"nat_gateway_id": NAT}
    max_hosts = added.pop("max_hosts", None)
    new_subnets = {"cidr": "10.1.64.0/18", **way_out, **added}
    return dev_spec(
        name="guest",
        availability_zones=ZONES if zones is None else zones,
        max_hosts=max_hosts,
        vpc={"existing": {"vpc_id": VPC, "new_subnets": new_subnets, **(existing or {})}, **(vpc or {})},
    )


@pytest.fixture(scope="module")
def behind_nat() -> Synthesized:
    return synthesize(guest(associate=True))


def found(cluster: Synthesized, type_: str) -> list[dict[str, Any]]:
    return [each["Properties"] for each in cluster.resources("network", f"AWS::EC2::{type_}").values()]


def test_range_is_divided_into_slots_without_nat_subnets(behind_nat: Synthesized) -> None:
    subnets = found(behind_nat, "Subnet")

    assert [(each["CidrBlock"], each["AvailabilityZone"]) for each in subnets] == [
        ("10.1.64.0/20", "us-west-2a"),
        ("10.1.80.0/20", "us-west-2b"),
    ]
    assert {(each["VpcId"], each["MapPublicIpOnLaunch"]) for each in subnets} == {(VPC, False)}


def test_zone_given_by_id_is_asked_for_by_id() -> None:
    (subnet,) = found(synthesize(guest(zones=["usw2-az2"])), "Subnet")

    assert subnet["AvailabilityZoneId"] == "usw2-az2"
    assert "AvailabilityZone" not in subnet


def test_declared_maximum_and_ranges_by_hand_count_here_too() -> None:
    network = synthesize(guest(max_hosts=20, vpc={"subnets": [{"cidr": "10.1.127.0/24"}]}))

    assert [each["CidrBlock"] for each in found(network, "Subnet")] == ["10.1.127.0/24", "10.1.68.0/22"]


def test_each_subnet_leads_to_the_nat_gateway_by_a_table_of_its_own(behind_nat: Synthesized) -> None:
    routes = found(behind_nat, "Route")
    associations = found(behind_nat, "SubnetRouteTableAssociation")

    assert {(each["NatGatewayId"], each["DestinationCidrBlock"]) for each in routes} == {(NAT, "0.0.0.0/0")}
    assert len({each["RouteTableId"]["Ref"] for each in routes}) == len(found(behind_nat, "RouteTable")) == 2
    assert [each["RouteTableId"] for each in associations] == [each["RouteTableId"] for each in routes]
    assert len({each["SubnetId"]["Ref"] for each in associations}) == 2


def test_s3_is_reached_past_the_nat_gateway_unless_the_vpc_sees_to_it(behind_nat: Synthesized) -> None:
    (endpoint,) = found(behind_nat, "VPCEndpoint")

    assert (endpoint["VpcEndpointType"], endpoint["ServiceName"]) == ("Gateway", "com.amazonaws.us-west-2.s3")
    assert endpoint["RouteTableIds"] == [each["RouteTableId"] for each in found(behind_nat, "Route")]
    assert not found(synthesize(guest(s3_endpoint=False)), "VPCEndpoint")


def test_further_range_is_added_to_the_vpc_before_the_subnets(behind_nat: Synthesized) -> None:
    ((name, block),) = behind_nat.resources("network", "AWS::EC2::VPCCidrBlock").items()
    subnets = behind_nat.resources("network", "AWS::EC2::Subnet").values()

    assert block["Properties"] == {"CidrBlock": "10.1.64.0/18", "VpcId": VPC}
    assert all(each["DependsOn"] == [name] for each in subnets)
    assert not found(synthesize(guest()), "VPCCidrBlock")


@pytest.mark.parametrize(("given", "used"), [(TABLES, TABLES), (TABLES[:1], TABLES[:1] * 2)])
def test_route_tables_of_the_vpc_are_used_and_left_alone(given: list[str], used: list[str]) -> None:
    cluster = synthesize(guest(route_table_ids=given))

    assert [each["RouteTableId"] for each in found(cluster, "SubnetRouteTableAssociation")] == used
    types = {each["Type"].rpartition("::")[2] for each in cluster.template("network")["Resources"].values()}
    assert types == {
        *("Subnet", "SubnetRouteTableAssociation"),
        *("SecurityGroup", "SecurityGroupIngress", "SecurityGroupEgress"),
    }


def test_security_group_that_is_there_is_used(behind_nat: Synthesized) -> None:
    cluster = synthesize(guest(existing={"security_group_id": GROUP}))

    assert not found(cluster, "SecurityGroup")
    assert GROUP in manifest_of(cluster)
    assert GROUP not in manifest_of(behind_nat)


def test_manifest_has_the_new_subnets(behind_nat: Synthesized) -> None:
    written = manifest_of(behind_nat)

    assert VPC in written
    assert len(re.findall(r"WeakNetworktrainingSubnet[12]", written)) == 3  # Lustre's twice
    assert all(zone in written for zone in ZONES)


def test_checks_know_the_new_subnets() -> None:
    """They are content, and would find a subnet that is too small for the hosts."""
    assert judged_with(hosts={"ml.p5.48xlarge": 16}) == []
    # It is the subnet of the file system that is visibly used.
    assert judged_with(hosts={"ml.p5.48xlarge": 600}) == [
        ("EFA004", "slipway-guest-network/Network/trainingSubnet1")
    ]


def test_templates_are_unchanged(behind_nat: Synthesized, snapshot: SnapshotAssertion) -> None:
    for part in behind_nat.parts:
        text = re.sub(r"\b[0-9a-f]{64}\b", "ASSET-HASH", json.dumps(behind_nat.template(part)))

        assert json.loads(text) == snapshot(name=part, extension_class=JSONSnapshotExtension)


SUBNETS = [{"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"}]
ADDED = ("vpc", "existing", "new_subnets")


@pytest.mark.parametrize(
    ("changes", "place", "told"),
    [
        ({"existing": {"subnets": SUBNETS}}, ADDED[:2], "`subnets` and `new_subnets` are both given"),
        ({"existing": {"new_subnets": None}}, ADDED[:2], "`subnets` and `new_subnets` are both missing"),
        ({"zones": []}, ("vpc",), "new subnets need `availability_zones`"),
        ({"nat_gateway_id": None}, ADDED, "`nat_gateway_id` and `route_table_ids` are both missing"),
        ({"route_table_ids": TABLES, "nat_gateway_id": NAT}, ADDED, "are both given"),
        ({"route_table_ids": TABLES, "s3_endpoint": False}, (*ADDED, "s3_endpoint"), "are the VPC's own"),
        (
            {"route_table_ids": TABLES, "zones": [*ZONES, "us-west-2c"]},
            (*ADDED, "route_table_ids"),
            "there are 2 route tables for 3 zones",
        ),
        ({"cidr": "10.0.0.0/8"}, (*ADDED, "cidr"), "between /16 and /28, not /8"),
        ({"cidr": "10.1.64.0/26"}, (*ADDED, "cidr"), "10.1.64.0/26 has 64 addresses, but 2 hosts of ml.g5"),
        (
            {"vpc": {"subnets": [{"cidr": "10.1.64.0/24", "nat_cidr": "10.1.65.0/28"}]}},
            ("vpc", "subnets", 0, "nat_cidr"),
            "no NAT gateway is created",
        ),
        ({"vpc": {"nat": False}}, ("vpc", "nat"), "the way out of an existing VPC is its own"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(
    changes: dict[str, Any], place: tuple[Any, ...], told: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        guest(**changes)
    (error,) = caught.value.errors()

    assert told in error["ctx"]["message"]
    assert (*error["loc"], *error["ctx"]["below"]) == place


@pytest.mark.parametrize("changes", [{"max_hosts": 4}, {"vpc": {"subnets": [{"cidr": "10.1.64.0/24"}]}}])
def test_subnets_that_are_there_have_their_addresses(changes: dict[str, Any]) -> None:
    vpc = {"existing": {"vpc_id": VPC, "subnets": SUBNETS}, **changes.pop("vpc", {})}

    with pytest.raises(ValidationError, match=r"are there already|have their addresses"):
        dev_spec(availability_zones=[], vpc=vpc, **changes)


def manifest_of(cluster: Synthesized) -> str:
    return json.dumps(cluster.template("manifest")["Resources"])


def judged_with(hosts: dict[str, int]) -> list[tuple[str, str]]:
    app = new_app()
    add_stacks(app, guest(cidr="10.1.0.0/18"))
    return reported(app, SlipwayChecks(app, hosts=hosts))
