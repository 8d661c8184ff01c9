"""The EFA security group: three rules, in an order that keeps them all."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import aws_ec2 as ec2
from constructs.efa_security_group import EfaSecurityGroup

from tests.stacks.synthesis import Resources, new_stack, resources_of, template_of


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    stack = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-west-2a"]
    )
    EfaSecurityGroup(stack, "Efa", vpc=vpc)
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


def test_isolated_group_lets_https_out_to_s3_only() -> None:
    stack = new_stack()
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["us-west-2a"]
    )
    EfaSecurityGroup(stack, "Efa", vpc=vpc, isolated=True, s3_prefix_list_id="pl-68a54001")
    isolated = template_of(stack)
    (to_s3,) = egress(isolated, "DestinationPrefixListId").values()

    assert not egress(isolated, "CidrIp")
    assert len(egress(isolated, "DestinationSecurityGroupId")) == 1
    assert to_s3["Properties"]["DestinationPrefixListId"] == "pl-68a54001"
    assert (to_s3["Properties"]["FromPort"], to_s3["Properties"]["ToPort"]) == (443, 443)


def egress(template: dict[str, Any], peer: str) -> Resources:
    rules = resources_of(template, "AWS::EC2::SecurityGroupEgress")
    return {name: rule for name, rule in rules.items() if peer in rule["Properties"]}
