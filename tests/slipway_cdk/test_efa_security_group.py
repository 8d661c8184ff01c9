"""The EFA security group: three rules, in an order that keeps them all."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.account.network import parse_security_group
from launcher.cluster.traffic import BOTH_WAYS, Passage, efa_passage, passage
from slipway_cdk.checks.security_groups import security_groups
from slipway_cdk.checks.templates import Resolver, Template
from slipway_cdk.efa_security_group import EfaSecurityGroup
from tests.slipway_cdk.checking import vpc_of_others
from tests.stacks.synthesis import Resources, new_stack, resources_of, template_of


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack()
    EfaSecurityGroup(stack, "Efa", vpc=vpc_of_others(stack))
    return template_of(stack)


@pytest.fixture(scope="module")
def group(template: dict[str, Any]) -> dict[str, list[str]]:
    (name,) = resources_of(template, "AWS::EC2::SecurityGroup")
    return {"Fn::GetAtt": [name, "GroupId"]}


def test_all_traffic_comes_in_from_the_group_itself(template: dict[str, Any], group: dict[str, Any]) -> None:
    (rule,) = resources_of(template, "AWS::EC2::SecurityGroupIngress").values()

    assert rule["Properties"]["IpProtocol"] == "-1"
    assert rule["Properties"]["GroupId"] == rule["Properties"]["SourceSecurityGroupId"] == group


def test_all_traffic_goes_out_to_the_group_itself(template: dict[str, Any], group: dict[str, Any]) -> None:
    (rule,) = egress(template, "DestinationSecurityGroupId").values()

    assert rule["Properties"]["IpProtocol"] == "-1"
    assert rule["Properties"]["GroupId"] == rule["Properties"]["DestinationSecurityGroupId"] == group


def test_all_traffic_goes_out_to_any_address(template: dict[str, Any]) -> None:
    (rule,) = egress(template, "CidrIp").values()

    assert (rule["Properties"]["IpProtocol"], rule["Properties"]["CidrIp"]) == ("-1", "0.0.0.0/0")


def test_way_out_is_added_after_the_rule_to_itself(template: dict[str, Any]) -> None:
    (to_itself,) = egress(template, "DestinationSecurityGroupId")
    (to_any_address,) = egress(template, "CidrIp").values()

    assert to_any_address["DependsOn"] == [to_itself]


def test_there_is_no_other_rule(template: dict[str, Any]) -> None:
    (group,) = resources_of(template, "AWS::EC2::SecurityGroup").values()

    assert not {"SecurityGroupIngress", "SecurityGroupEgress"} & group["Properties"].keys()
    assert len(resources_of(template, "AWS::EC2::SecurityGroupEgress")) == 2


@pytest.fixture(scope="module")
def isolated() -> dict[str, Any]:
    stack = new_stack()
    EfaSecurityGroup(stack, "Efa", vpc=vpc_of_others(stack), isolated=True, s3_prefix_list_id="pl-68a54001")
    return template_of(stack)


def test_isolated_group_is_never_created_open(isolated: dict[str, Any]) -> None:
    """EC2 lets all traffic out of a group without egress of its own."""
    (group,) = resources_of(isolated, "AWS::EC2::SecurityGroup").values()
    (rule,) = group["Properties"]["SecurityGroupEgress"]

    assert (rule["IpProtocol"], rule["CidrIp"]) == ("icmp", "255.255.255.255/32")
    assert "SecurityGroupIngress" not in group["Properties"]


def test_isolated_group_is_judged_in_the_template_as_in_the_account(isolated: dict[str, Any]) -> None:
    resources = Resolver([Template("Stack", "t.json", isolated, region="us-west-2")]).resources
    (at_synthesis,) = security_groups(resources).values()
    itself = {"GroupId": at_synthesis.id}
    live = parse_security_group(
        {
            "GroupId": at_synthesis.id,
            "VpcId": at_synthesis.vpc_id,
            "IpPermissions": [{"IpProtocol": "-1", "UserIdGroupPairs": [itself]}],
            "IpPermissionsEgress": [
                {"IpProtocol": "-1", "UserIdGroupPairs": [itself]},
                {
                    "IpProtocol": "tcp",
                    "FromPort": 443,
                    "ToPort": 443,
                    "PrefixListIds": [{"PrefixListId": "pl-68a54001"}],
                },
                {
                    "IpProtocol": "icmp",
                    "FromPort": 252,
                    "ToPort": 86,
                    "IpRanges": [{"CidrIp": "255.255.255.255/32"}],
                },
            ],
        }
    )

    assert set(at_synthesis.rules) == set(live.rules)
    for direction in BOTH_WAYS:
        assert efa_passage(at_synthesis, direction) is efa_passage(live, direction) is Passage.OPEN
    for port, judged in ((443, Passage.UNKNOWN), (80, Passage.CLOSED)):  # The list may hold any address.
        assert {passage([each], "egress", (port, port)) for each in (at_synthesis, live)} == {judged}


def test_isolated_group_lets_https_out_to_s3_only(isolated: dict[str, Any]) -> None:
    (to_s3,) = egress(isolated, "DestinationPrefixListId").values()

    assert not egress(isolated, "CidrIp")
    assert len(egress(isolated, "DestinationSecurityGroupId")) == 1
    assert to_s3["Properties"]["DestinationPrefixListId"] == "pl-68a54001"
    assert (to_s3["Properties"]["FromPort"], to_s3["Properties"]["ToPort"]) == (443, 443)


def egress(template: dict[str, Any], peer: str) -> Resources:
    rules = resources_of(template, "AWS::EC2::SecurityGroupEgress")
    return {name: rule for name, rule in rules.items() if peer in rule["Properties"]}
