"""Security groups: every rule of an answer is read, and what passes is judged by all of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.questions.security_groups import fetch_security_groups
from launcher.account.security_groups import parse_security_group
from launcher.cluster.security_groups import Passage, SecurityGroup, SecurityGroupRule, passage
from launcher.cluster.training_network import efa_passage
from launcher.failure_modes.refusal import AwsRefusal

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


def test_directions_are_kept_apart() -> None:
    assert efa_passage(group(ALL | ITSELF), "ingress") is Passage.CLOSED


def test_every_peer_of_a_permission_is_read() -> None:
    peers = {
        "IpRanges": [{"CidrIp": "10.0.0.0/8"}, {"CidrIp": "192.168.0.0/16"}],
        "Ipv6Ranges": [{"CidrIpv6": "fd00::/8"}],
        "PrefixListIds": [{"PrefixListId": "pl-1"}],
    }
    described = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, **peers, **OTHER}

    (rule,) = group(described).rules

    assert rule == SecurityGroupRule(
        direction="egress",
        protocol="tcp",
        first_port=988,
        last_port=988,
        ipv4=("10.0.0.0/8", "192.168.0.0/16"),
        ipv6=("fd00::/8",),
        prefix_lists=("pl-1",),
        groups=("sg-1",),
    )


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


@pytest.fixture
def ec2() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("ec2", region_name="us-west-2")


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


def test_groups_come_in_the_order_asked_for_and_each_once(ec2: Any) -> None:
    first, second = create(ec2, "first"), create(ec2, "second")

    assert [each.id for each in fetch_security_groups(ec2, [second, first, second])] == [second, first]


def test_group_that_does_not_exist_is_left_out(ec2: Any) -> None:
    id_ = create(ec2, "efa")

    assert [each.id for each in fetch_security_groups(ec2, ["sg-00000000", id_])] == [id_]


def test_nothing_is_asked_for_no_groups() -> None:
    assert fetch_security_groups(None, []) == ()


def test_every_page_is_read(ec2: Any) -> None:
    filters = {"Filters": [{"Name": "group-id", "Values": ["sg-1", "sg-2"]}]}
    with Stubber(ec2) as stubbed:
        operation = "describe_security_groups"
        stubbed.add_response(
            operation, {"SecurityGroups": [{"GroupId": "sg-2"}], "NextToken": "more"}, filters
        )
        more = {**filters, "NextToken": "more"}
        stubbed.add_response(operation, {"SecurityGroups": [{"GroupId": "sg-1"}]}, more)
        found = fetch_security_groups(ec2, ["sg-1", "sg-2"])

    assert [each.id for each in found] == ["sg-1", "sg-2"]


def test_refusal_names_the_permission(ec2: Any) -> None:
    ec2.meta.events.register("before-send.ec2.DescribeSecurityGroups", refuse)

    with pytest.raises(AwsRefusal, match="ec2:DescribeSecurityGroups"):
        fetch_security_groups(ec2, ["sg-1"])


def refuse(**_: Any) -> Any:
    from botocore.exceptions import ClientError

    raise ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "not you"}}, "Describe")
