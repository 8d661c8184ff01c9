"""The network stack: the EFA rules, the size of the subnets, and the way out."""

from __future__ import annotations

import ipaddress

from tests.stacks.synthesis import Synthesized, dev_spec, resources_of, synthesize


def test_training_subnets_hold_the_planned_hosts(dev: Synthesized) -> None:
    (subnet,) = training_subnets(dev)

    assert subnet["AvailabilityZone"] == "us-west-2a"
    assert ipaddress.ip_network(subnet["CidrBlock"]).num_addresses >= 2 * 5 + 5


def test_nat_leads_out_of_the_training_subnets(dev: Synthesized) -> None:
    routes = dev.resources("network", "AWS::EC2::Route").values()

    assert [each for each in routes if "NatGatewayId" in each["Properties"]]
    assert len(dev.resources("network", "AWS::EC2::NatGateway")) == 1


def test_s3_is_reached_past_the_nat(dev: Synthesized) -> None:
    (endpoint,) = dev.resources("network", "AWS::EC2::VPCEndpoint").values()

    assert endpoint["Properties"]["VpcEndpointType"] == "Gateway"


def test_without_nat_endpoints_are_the_way_out() -> None:
    spec = dev_spec(vpc={"cidr": "10.64.0.0/20", "nat": False})
    template = synthesize(spec).template("network")
    endpoints = resources_of(template, "AWS::EC2::VPCEndpoint").values()
    services = {str(each["Properties"]["ServiceName"]).rpartition("us-west-2.")[2] for each in endpoints}

    assert not resources_of(template, "AWS::EC2::NatGateway")
    assert not resources_of(template, "AWS::EC2::InternetGateway")
    assert {"ecr.api", "ecr.dkr", "logs", "monitoring", "sts", "sagemaker.api"} < services


def test_every_zone_has_a_subnet_of_its_own() -> None:
    zones = ["us-west-2a", "us-west-2b", "us-west-2c"]
    subnets = training_subnets(synthesize(dev_spec(availability_zones=zones)))

    assert [subnet["AvailabilityZone"] for subnet in subnets] == zones


def test_default_security_group_is_closed(dev: Synthesized) -> None:
    assert dev.resources("network", "Custom::VpcRestrictDefaultSG")


def training_subnets(cluster: Synthesized) -> list[dict[str, str]]:
    subnets = [each["Properties"] for each in cluster.resources("network", "AWS::EC2::Subnet").values()]
    name = {"Key": "aws-cdk:subnet-name", "Value": "training"}
    return [subnet for subnet in subnets if name in subnet["Tags"]]
