"""The network behind a job: subnets, the routes that serve them, endpoints and network ACLs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from botocore.stub import Stubber

from launcher.account.network import (
    NetworkAclEntry,
    NetworkState,
    WayOut,
    parse_endpoint,
    parse_network_acl,
    parse_route_table,
    parse_security_group,
    parse_subnet,
)
from launcher.account.questions.ask_network import fetch_network_acls, fetch_security_groups
from launcher.cluster.traffic import Passage, SecurityGroup, SecurityGroupRule, efa_passage, passage
from launcher.failure_modes.model import AwsRefusal
from launcher.rules.live.network_rules import lets_pass
from tests.account.read_back import read_network
from tests.emulator.faults import DENIED, inject

SUBNET = {
    "SubnetId": "subnet-1",
    "VpcId": "vpc-1",
    "AvailabilityZone": "us-west-2a",
    "CidrBlock": "10.0.0.0/24",
    "AvailableIpAddressCount": 251,
}
LOCAL = {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local", "State": "active"}
TO_ANY = {"DestinationCidrBlock": "0.0.0.0/0", "State": "active"}
NAT = TO_ANY | {"NatGatewayId": "nat-1"}


def table(*routes: dict[str, Any], subnets: tuple[str, ...] = ("subnet-1",), main: bool = False) -> Any:
    associations: list[dict[str, Any]] = [{"SubnetId": each, "Main": False} for each in subnets]
    if main:
        associations.append({"Main": True})
    described = {"RouteTableId": f"rtb-{'main' if main else 'own'}", "VpcId": "vpc-1"}
    return parse_route_table({**described, "Associations": associations, "Routes": [LOCAL, *routes]})


def endpoint(service: str = "ecr.api", **changes: Any) -> Any:
    described = {
        "VpcEndpointId": f"vpce-{service}",
        "VpcId": "vpc-1",
        "ServiceName": f"com.amazonaws.us-west-2.{service}",
        "VpcEndpointType": "Interface",
        "State": "available",
        "PrivateDnsEnabled": True,
    }
    return parse_endpoint({**described, **changes})


def ways(*tables: Any, endpoints: tuple[Any, ...] = ()) -> list[tuple[str, str]]:
    state = NetworkState((parse_subnet(SUBNET),), (), tables, endpoints)
    return [(way.reaches, way.through) for way in state.ways_out("subnet-1")]


@pytest.mark.parametrize(
    ("route", "found"),
    [
        pytest.param(NAT, [("any", "nat-1")], id="NAT gateway"),
        pytest.param(TO_ANY | {"GatewayId": "igw-1"}, [("any", "igw-1")], id="internet gateway"),
        pytest.param(TO_ANY | {"TransitGatewayId": "tgw-1"}, [("any", "tgw-1")], id="transit gateway"),
        pytest.param(NAT | {"State": "blackhole"}, [], id="deleted NAT gateway"),
        pytest.param(NAT | {"DestinationCidrBlock": "172.16.0.0/12"}, [], id="route to a part"),
        pytest.param(
            {"DestinationIpv6CidrBlock": "::/0", "EgressOnlyInternetGatewayId": "eigw-1", "State": "active"},
            [],
            id="IPv6 alone",
        ),
    ],
)
def test_default_route_is_a_way_out(route: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert ways(table(route)) == found


def test_subnet_follows_the_main_table_where_it_has_none_of_its_own() -> None:
    main = table(NAT, subnets=(), main=True)
    assert ways(table(subnets=("subnet-2",)), main) == [("any", "nat-1")]
    assert ways(main, table()) == []


@pytest.mark.parametrize(
    ("changes", "serves"),
    [
        pytest.param({}, True, id="available"),
        pytest.param({"State": "Available"}, True, id="state as other answers write it"),
        pytest.param({"State": "pendingAcceptance"}, False, id="not yet accepted"),
        pytest.param({"PrivateDnsEnabled": False}, False, id="no private names"),
        pytest.param({"VpcId": "vpc-2"}, False, id="another VPC"),
    ],
)
def test_interface_endpoint_serves_its_vpc(changes: dict[str, Any], serves: bool) -> None:
    assert bool(ways(table(), endpoints=(endpoint(**changes),))) is serves


@pytest.mark.parametrize("type_", [{"VpcEndpointType": "Gateway"}, {"VpcEndpointType": None}])
@pytest.mark.parametrize(("tables", "serves"), [(["rtb-own"], True), (["rtb-other"], False), ([], False)])
def test_gateway_endpoint_serves_the_subnets_of_its_route_tables(
    type_: dict[str, Any], tables: list[str], serves: bool
) -> None:
    s3 = endpoint("s3", RouteTableIds=tables, PrivateDnsEnabled=False, **type_)

    assert ways(table(), endpoints=(s3,)) == ([("s3", "vpce-s3")] if serves else [])


def test_service_of_another_region_and_of_somebody_else_has_a_name() -> None:
    assert endpoint(ServiceName="cn.com.amazonaws.cn-north-1.ecr.dkr").service == "ecr.dkr"
    assert endpoint(ServiceName="com.example.thing").service == "com.example.thing"


def entry(number: int, action: str, **changes: Any) -> dict[str, Any]:
    described = {"RuleNumber": number, "RuleAction": action, "Egress": True, "Protocol": "-1"}
    return {**described, "CidrBlock": "0.0.0.0/0", **changes}


def test_entries_of_an_acl_come_in_the_order_in_which_they_are_met() -> None:
    https = {"Protocol": "6", "PortRange": {"From": 443, "To": 443}}
    described = [entry(32767, "deny"), entry(100, "allow", Egress=False), entry(50, "deny", **https)]

    acl = parse_network_acl({"NetworkAclId": "acl-1", "VpcId": "vpc-1", "Entries": described})

    assert acl.entries == (
        NetworkAclEntry(50, "egress", False, "6", "0.0.0.0/0", 443, 443),
        NetworkAclEntry(100, "ingress", True, "-1", "0.0.0.0/0"),
        NetworkAclEntry(32767, "egress", False, "-1", "0.0.0.0/0"),
    )


def test_entry_about_ipv6_has_its_range() -> None:
    described = entry(100, "allow", CidrBlock=None, Ipv6CidrBlock="::/0")

    (found,) = parse_network_acl({"NetworkAclId": "acl-1", "VpcId": "vpc-1", "Entries": [described]}).entries

    assert found.cidr == "::/0"


@dataclass
class Emulated:
    """A VPC in moto, with one subnet of its own route table and one of the main one."""

    ec2: Any
    vpc: str
    routed: str
    bare: str
    route_table: str


@pytest.fixture
def emulated(ec2: Any) -> Emulated:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = [
        ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone="us-west-2b")["Subnet"]["SubnetId"]
        for cidr in ("10.0.0.0/24", "10.0.1.0/28")
    ]
    route_table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.associate_route_table(RouteTableId=route_table, SubnetId=subnets[0])
    return Emulated(ec2, vpc, *subnets, route_table)


def test_subnets_are_fetched_with_zone_and_free_addresses(emulated: Emulated) -> None:
    state = read_network(emulated.ec2, [emulated.bare, emulated.routed, "subnet-0"], [])

    assert [each.id for each in state.subnets] == [emulated.bare, emulated.routed]
    small = state.subnet(emulated.bare)
    assert small is not None
    assert (small.availability_zone, small.cidr, small.free_addresses) == ("us-west-2b", "10.0.1.0/28", 11)


def test_nat_gateway_is_found_behind_its_subnet_only(emulated: Emulated) -> None:
    ec2 = emulated.ec2
    nat = ec2.create_nat_gateway(SubnetId=emulated.bare)["NatGateway"]["NatGatewayId"]
    ec2.create_route(RouteTableId=emulated.route_table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)

    state = read_network(ec2, [emulated.routed, emulated.bare], [])

    assert state.ways_out(emulated.routed) == (WayOut("any", nat, "nat"),)
    assert state.ways_out(emulated.bare) == ()


def test_endpoints_are_found_with_their_groups(emulated: Emulated) -> None:
    ec2, vpc = emulated.ec2, emulated.vpc
    group = ec2.create_security_group(GroupName="front", Description="front", VpcId=vpc)["GroupId"]
    ec2.create_vpc_endpoint(
        VpcId=vpc, ServiceName="com.amazonaws.us-west-2.s3", RouteTableIds=[emulated.route_table]
    )
    ec2.create_vpc_endpoint(
        VpcId=vpc,
        VpcEndpointType="Interface",
        ServiceName="com.amazonaws.us-west-2.sts",
        SubnetIds=[emulated.bare],
        SecurityGroupIds=[group],
        PrivateDnsEnabled=True,
    )

    state = read_network(ec2, [emulated.routed, emulated.bare], [])

    assert [way.reaches for way in state.ways_out(emulated.routed)] == ["s3", "sts"]
    assert [way.reaches for way in state.ways_out(emulated.bare)] == ["sts"]
    (sts,) = [each for each in state.endpoints if each.service == "sts"]
    assert sts.subnet_ids == (emulated.bare,)
    assert sts.security_group_ids == (group,)


def test_groups_and_acls_are_fetched_beside_the_subnets(emulated: Emulated) -> None:
    group = emulated.ec2.create_security_group(GroupName="efa", Description="efa", VpcId=emulated.vpc)
    state = read_network(emulated.ec2, [emulated.routed], [group["GroupId"], "sg-00000000"])
    assert state.group(group["GroupId"]) is not None
    assert state.group("sg-00000000") is None

    # The default ACL lets everything pass.
    acl = state.acl(emulated.routed)

    assert acl is not None
    assert lets_pass(acl, "egress", (443, 443), "0.0.0.0/0")
    assert lets_pass(acl, "ingress", (1024, 65535), "0.0.0.0/0")


def test_network_of_nothing_is_empty(emulated: Emulated) -> None:
    assert read_network(emulated.ec2, ["subnet-0"], []) == NetworkState()
    assert fetch_network_acls(emulated.ec2, []) == ()


@pytest.mark.parametrize("asked", ["Subnets", "RouteTables", "VpcEndpoints", "NetworkAcls", "SecurityGroups"])
def test_refusal_names_the_permission(emulated: Emulated, asked: str) -> None:
    inject(emulated.ec2, f"Describe{asked}", *[DENIED] * 9)

    with pytest.raises(AwsRefusal, match=f"ec2:Describe{asked}"):
        read_network(emulated.ec2, [emulated.routed], ["sg-1"])


GROUP = "sg-0123456789abcdef0"
ITSELF = {"UserIdGroupPairs": [{"GroupId": GROUP, "UserId": "123456789012"}]}
OTHER = {"UserIdGroupPairs": [{"GroupId": "sg-1", "UserId": "123456789012"}]}
ANY = {"IpRanges": [{"CidrIp": "0.0.0.0/0", "Description": "the way out"}]}
ALL, ALL_TCP = {"IpProtocol": "-1"}, {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535}


def group(*egress: dict[str, Any]) -> SecurityGroup:
    described = {"GroupId": GROUP, "VpcId": "vpc-1", "IpPermissionsEgress": egress}
    return parse_security_group(described)


@pytest.mark.parametrize(
    ("egress", "allowed"),
    [
        pytest.param([ALL | ITSELF], True, id="itself"),
        pytest.param([ALL | ITSELF | ANY], True, id="itself and a CIDR in one permission"),
        pytest.param(
            [ALL | {"UserIdGroupPairs": [*OTHER["UserIdGroupPairs"], *ITSELF["UserIdGroupPairs"]]}],
            True,
            id="itself as the second of several pairs",
        ),
        pytest.param([ALL_TCP | ITSELF, ALL | ITSELF], True, id="itself in the second permission"),
        pytest.param([ALL | ANY], False, id="any address"),
        pytest.param([ALL | {"Ipv6Ranges": [{"CidrIpv6": "::/0"}]}], False, id="any IPv6 address"),
        pytest.param([ALL | {"PrefixListIds": [{"PrefixListId": "pl-1"}]}], False, id="prefix list"),
        pytest.param([ALL | OTHER], False, id="another group"),
        pytest.param([ALL_TCP | ITSELF], False, id="TCP 0-65535"),
        pytest.param([{"IpProtocol": "6"} | ITSELF], False, id="TCP by its number"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_all_traffic_to_itself_needs_a_permission_that_names_the_group(
    egress: list[dict[str, Any]], allowed: bool
) -> None:
    assert (efa_passage(group(*egress), "egress") is Passage.OPEN) is allowed
    assert efa_passage(group(*egress), "ingress") is Passage.CLOSED


def test_every_peer_of_a_permission_is_read() -> None:
    peers = {
        "IpRanges": [{"CidrIp": "10.0.0.0/8"}, {"CidrIp": "192.168.0.0/16"}],
        "Ipv6Ranges": [{"CidrIpv6": "fd00::/8"}],
        "PrefixListIds": [{"PrefixListId": "pl-1"}],
    }
    described = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, **peers, **OTHER}

    expected = {
        "ipv4": ("10.0.0.0/8", "192.168.0.0/16"), "ipv6": ("fd00::/8",), "prefix_lists": ("pl-1",),
        "groups": ("sg-1",), "direction": "egress", "protocol": "tcp", "first_port": 988, "last_port": 988,
    }  # fmt: skip
    assert group(described).rules == (SecurityGroupRule(**expected),)


@pytest.mark.parametrize(
    ("permission", "covered"),
    [
        pytest.param(ALL, True, id="all traffic"),
        pytest.param(ALL_TCP, True, id="all of TCP"),
        pytest.param({"IpProtocol": "tcp", "FromPort": 1018, "ToPort": 1023}, True, id="the very ports"),
        pytest.param({"IpProtocol": "6", "FromPort": -1, "ToPort": -1}, True, id="every port written as -1"),
        pytest.param({"IpProtocol": "tcp", "FromPort": 1021, "ToPort": 1023}, False, id="some of them"),
        pytest.param({"IpProtocol": "udp", "FromPort": 0, "ToPort": 65535}, False, id="UDP"),
    ],
)
def test_ports_pass_where_one_permission_covers_them_all(permission: dict[str, Any], covered: bool) -> None:
    passed = passage([group(permission | OTHER)], "egress", (1018, 1023), peer_groups=["sg-1"])

    assert (passed is Passage.OPEN) is covered


@pytest.mark.parametrize(
    ("cidr", "within"),
    [("10.1.2.0/24", True), ("10.0.0.0/8", True), ("11.0.0.0/24", False)],
)
def test_range_of_addresses_passes_where_a_range_holds_it(cidr: str, within: bool) -> None:
    permission = ALL | {"IpRanges": [{"CidrIp": "10.0.0.0/8"}]}

    assert (passage([group(permission)], "egress", (443, 443), peer_ranges=[cidr]) is Passage.OPEN) is within


def create(ec2: Any, name: str) -> str:
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    return str(ec2.create_security_group(GroupName=name, Description=name, VpcId=vpc)["GroupId"])


def test_fetched_group_has_the_rules_that_were_authorized(ec2: Any) -> None:
    id_ = create(ec2, "efa")
    itself = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": id_}]}]
    ec2.authorize_security_group_ingress(GroupId=id_, IpPermissions=itself)
    ec2.authorize_security_group_egress(GroupId=id_, IpPermissions=itself)

    (found,) = fetch_security_groups(ec2, [id_])

    assert efa_passage(found, "ingress") is Passage.OPEN
    assert efa_passage(found, "egress") is Passage.OPEN
    assert [each.ipv4 for each in found.towards("egress") if each.ipv4] == [("0.0.0.0/0",)]


def test_groups_come_in_the_order_asked_for_each_once_and_only_those_that_exist(ec2: Any) -> None:
    first, second = create(ec2, "first"), create(ec2, "second")
    asked = [second, "sg-00000000", first, second]

    assert [each.id for each in fetch_security_groups(ec2, asked)] == [second, first]


def test_nothing_is_asked_for_no_groups() -> None:
    assert fetch_security_groups(None, []) == ()


def test_every_page_is_read(ec2: Any) -> None:
    filters = {"Filters": [{"Name": "group-id", "Values": ["sg-1", "sg-2"]}]}
    pages = {"sg-2": {"NextToken": "more"}, "sg-1": {}}
    with Stubber(ec2) as stubbed:
        for asked, (id_, more) in zip(({}, {"NextToken": "more"}), pages.items(), strict=True):
            answer = {"SecurityGroups": [{"GroupId": id_}], **more}
            stubbed.add_response("describe_security_groups", answer, {**filters, **asked})
        found = fetch_security_groups(ec2, ["sg-1", "sg-2"])

    assert [each.id for each in found] == ["sg-1", "sg-2"]
