"""The network stack: what stands in it, and the slots in which its subnets lie."""

from __future__ import annotations

import ipaddress
import json
import re
from typing import Any

import pytest
import yaml

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.traffic import S3, SERVICES
from tests.stacks import synthesis
from tests.stacks.synthesis import CLUSTERS, ROOT, Resources, Synthesized, dev_spec, resources_of, synthesize


def test_training_subnets_hold_the_planned_hosts(dev: Synthesized) -> None:
    (subnet,) = training_subnets(dev)

    assert subnet["AvailabilityZoneId"] == "usw2-az1"
    assert ipaddress.ip_network(subnet["CidrBlock"]).num_addresses >= 2 * 5 + 5


def test_nat_leads_out_of_the_training_subnets(dev: Synthesized) -> None:
    routes = dev.resources("network", "AWS::EC2::Route").values()

    assert [each for each in routes if "NatGatewayId" in each["Properties"]]
    assert len(dev.resources("network", "AWS::EC2::NatGateway")) == 1


def test_s3_is_reached_past_the_nat(dev: Synthesized) -> None:
    (endpoint,) = dev.resources("network", "AWS::EC2::VPCEndpoint").values()

    assert endpoint["Properties"]["VpcEndpointType"] == "Gateway"


def test_without_nat_endpoints_are_the_way_out(isolated: Synthesized) -> None:
    template = isolated.template("network")
    endpoints = resources_of(template, "AWS::EC2::VPCEndpoint").values()
    services = {str(each["Properties"]["ServiceName"]).rpartition("us-west-2.")[2] for each in endpoints}

    assert not resources_of(template, "AWS::EC2::NatGateway")
    assert not resources_of(template, "AWS::EC2::InternetGateway")
    assert {"ecr.api", "ecr.dkr", "logs", "monitoring", "sts", "sagemaker.api", "ssm"} < services
    assert set(SERVICES) - {S3} < services
    # The cluster has a key and a file system.
    assert {"kms", "fsx"} < services


def test_isolated_hosts_reach_themselves_s3_and_the_endpoints_only(isolated: Synthesized) -> None:
    egress = isolated.resources("network", "AWS::EC2::SecurityGroupEgress").values()
    rules = [each["Properties"] for each in egress]
    hosts = {str(rule["GroupId"]) for rule in rules if rule["IpProtocol"] == "-1"}
    ways_out = [rule for rule in rules if str(rule["GroupId"]) in hosts and rule["IpProtocol"] != "-1"]

    assert [rule.get("CidrIp") for rule in rules] == [None, None, None]
    assert {(rule["FromPort"], rule["ToPort"]) for rule in ways_out} == {(443, 443)}
    assert [
        rule.get("DestinationPrefixListId") for rule in ways_out if "DestinationPrefixListId" in rule
    ] == ["pl-68a54001"]


def test_endpoints_listen_to_the_hosts_only(isolated: Synthesized) -> None:
    template = isolated.template("network")
    endpoints = resources_of(template, "AWS::EC2::VPCEndpoint").values()
    interfaces = [
        each["Properties"] for each in endpoints if each["Properties"]["VpcEndpointType"] == "Interface"
    ]
    groups = {str(group) for each in interfaces for group in each["SecurityGroupIds"]}
    (vpc,) = resources_of(template, "AWS::EC2::VPC").values()

    assert len(groups) == 1
    assert all(each["PrivateDnsEnabled"] for each in interfaces)
    assert vpc["Properties"]["EnableDnsHostnames"] and vpc["Properties"]["EnableDnsSupport"]


def test_zones_given_by_id_are_asked_for_by_id() -> None:
    subnets = training_subnets(synthesis.cluster("p4d"))

    assert [subnet["AvailabilityZoneId"] for subnet in subnets] == ["usw2-az1", "usw2-az2"]
    assert not [subnet for subnet in subnets if "AvailabilityZone" in subnet]


def test_existing_vpc_gets_nothing_but_the_group() -> None:
    subnet = {"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2b"}
    existing = {"vpc_id": "vpc-0123456789abcdef0", "subnets": [subnet]}
    template = synthesize(dev_spec(vpc={"existing": existing}, availability_zones=[])).template("network")

    types = {each["Type"].rpartition("::")[2] for each in template["Resources"].values()}
    assert types == {"SecurityGroup", "SecurityGroupIngress", "SecurityGroupEgress"}


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


BEFORE: dict[str, Resources] = json.loads(
    (ROOT / "tests/stacks/subnets_before_slots.json").read_text("utf-8")
)
"""The subnets of the templates of version 0.1.0, by cluster."""

LUSTRE = {"deployment": "PERSISTENT_2", "throughput": 125, "metadata": "automatic"}
ZONES = ["usw2-az1", "usw2-az2", "usw2-az3"]


@pytest.mark.few_cases("dev")
@pytest.mark.parametrize("name", CLUSTERS)
def test_pinned_network_keeps_the_subnets_that_were_deployed_before(name: str) -> None:
    spec = load_cluster_file(ROOT / "clusters" / f"{name}.yaml")
    # The zones as they were deployed.
    training = [each["Properties"] for each in BEFORE[name].values() if "training" in str(each)]
    zones = [each.get("AvailabilityZone") or each["AvailabilityZoneId"] for each in training]
    pins = {"vpc": pins_of_the_release_notes()[name], "availability_zones": zones}
    pinned = ClusterSpec.model_validate({**spec.model_dump(), **pins})
    there = {key: each for key, each in BEFORE[name].items() if "natSubnet2" not in key}  # had no gateway

    # What is kept when the stack is deleted is new, and changes nothing of a subnet that stands.
    assert without_policies(subnets(synthesize(pinned))) == without_policies(there)
    assert {**pinned.vpc.model_dump(), "subnets": []} == spec.vpc.model_dump()


def test_without_pins_the_addresses_of_before_would_change(dev: Synthesized) -> None:
    assert subnets(dev).keys() == BEFORE["dev"].keys()
    assert subnets(dev) != BEFORE["dev"]


@pytest.mark.few_cases(every=5)
@pytest.mark.parametrize(
    "growth",
    [
        pytest.param({"hosts": [{"instance_type": "ml.g5.8xlarge", "count": 20}]}, id="more hosts"),
        pytest.param({"hosts": [{"instance_type": "ml.p5.48xlarge", "count": 6}]}, id="larger hosts"),
        pytest.param({"lustre": {"deployment": "SCRATCH_2", "capacity_gib": 240_000}}, id="larger Lustre"),
        pytest.param({"lustre": {**LUSTRE, "capacity_gib": 38_400, "efa": True}}, id="Lustre with EFA"),
        pytest.param({"lustre": None}, id="no Lustre"),
        pytest.param({"availability_zones": ZONES[:2]}, id="a second zone"),
        pytest.param({"availability_zones": ZONES}, id="a second and third zone"),
        pytest.param({"encryption": "aws-managed", "observability": {}, "queue": {}}, id="more parts"),
    ],
)
@pytest.mark.parametrize("max_hosts", [None, 6])
def test_growth_changes_no_subnet_that_is_there(growth: dict[str, Any], max_hosts: int | None) -> None:
    there = subnets(synthesize(dev_spec(max_hosts=max_hosts)))
    grown = subnets(synthesize(dev_spec(max_hosts=max_hosts, **growth)))

    assert {name: grown[name] for name in there} == there
    # One NAT gateway, and so one subnet for it.
    assert len(grown) == 1 + len(growth.get("availability_zones", ZONES[:1]))


def test_subnets_lie_in_their_slots() -> None:
    network = synthesize(dev_spec(availability_zones=ZONES, max_hosts=20))
    ranges = {each["Properties"]["CidrBlock"] for each in subnets(network).values()}

    assert ranges == {
        *("10.64.0.0/22", "10.64.4.0/22", "10.64.8.0/22"),
        "10.64.15.240/28",
    }


def test_only_a_zone_with_a_nat_gateway_has_a_subnet_for_one() -> None:
    one = synthesize(dev_spec(availability_zones=ZONES))
    each = synthesize(dev_spec(availability_zones=ZONES, vpc={"cidr": "10.64.0.0/20", "nat": "per-zone"}))

    assert [len(cluster.resources("network", "AWS::EC2::NatGateway")) for cluster in (one, each)] == [1, 3]
    assert [ranges_for_nat(cluster) for cluster in (one, each)] == [
        ["10.64.15.240/28"],
        ["10.64.15.240/28", "10.64.15.224/28", "10.64.15.208/28"],
    ]


@pytest.mark.parametrize("nat", [True, "per-zone"])
def test_each_zone_leaves_through_the_gateway_that_is_nearest(nat: Any) -> None:
    cluster = synthesize(dev_spec(availability_zones=ZONES, vpc={"cidr": "10.64.0.0/20", "nat": nat}))
    routes = [each["Properties"] for each in cluster.resources("network", "AWS::EC2::Route").values()]
    gateways = [each["NatGatewayId"]["Ref"] for each in routes if "NatGatewayId" in each]

    assert len(gateways) == 3
    assert len(set(gateways)) == (3 if nat == "per-zone" else 1)
    assert all(f"natSubnet{number}" in each for number, each in enumerate(gateways, 1) if nat == "per-zone")


def ranges_for_nat(cluster: Synthesized) -> list[str]:
    name = {"Key": "aws-cdk:subnet-name", "Value": "nat"}
    found = [each["Properties"] for each in subnets(cluster).values()]
    return [each["CidrBlock"] for each in found if name in each["Tags"]]


def subnets(cluster: Synthesized) -> Resources:
    return cluster.resources("network", "AWS::EC2::Subnet")


def without_policies(found: Resources) -> Resources:
    policies = ("DeletionPolicy", "UpdateReplacePolicy")
    return {
        name: {key: value for key, value in resource.items() if key not in policies}
        for name, resource in found.items()
    }


def pins_of_the_release_notes() -> dict[str, Any]:
    page = (ROOT / "docs" / "release-notes.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n# ([a-z0-9-]+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return {name: yaml.safe_load(text)["vpc"] for name, text in blocks}
