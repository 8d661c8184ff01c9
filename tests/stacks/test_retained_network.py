"""What of the network outlives its stack: all that a file system stands in, nothing that costs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.synthesis import Synthesized, dev_spec, resources_of, synthesize

PERSISTENT = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 2400}
ZONES = ["us-west-2a", "us-west-2b"]
OWN_VPC = {"vpc": {"cidr": "10.64.0.0/20"}}
ISOLATED = {"vpc": {"cidr": "10.64.0.0/20", "nat": False}}
ADDED: dict[str, Any] = {
    "vpc": {
        "existing": {
            "vpc_id": "vpc-0123456789abcdef0",
            "new_subnets": {
                "cidr": "100.64.0.0/20",
                "associate": True,
                "nat_gateway_id": "nat-0123456789abcdef0",
            },
        }
    }
}
KEPT = ["RetainExceptOnCreate", "Retain"]
SUBNETS = [{"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"}]
EXISTING: dict[str, Any] = {
    "vpc": {"existing": {"vpc_id": "vpc-0123456789abcdef0", "subnets": SUBNETS}},
    "availability_zones": [],
}


def built(removal_policy: str = "retain", **changes: Any) -> Synthesized:
    return synthesize(
        dev_spec(
            **{
                "lustre": PERSISTENT,
                "availability_zones": ZONES,
                "removal_policy": removal_policy,
                **changes,
            }
        )
    )


def kept(cluster: Synthesized) -> dict[str, dict[str, Any]]:
    """The resources of the network that neither a deletion nor a replacement takes away."""
    resources = cluster.template("network")["Resources"].items()
    policies = ("DeletionPolicy", "UpdateReplacePolicy")
    found = {name: [each.get(policy) for policy in policies] for name, each in resources}
    assert all(both in (KEPT, ["Delete", "Delete"], [None, None]) for both in found.values())
    return {name: each for name, each in resources if found[name] == KEPT}


def types(resources: dict[str, dict[str, Any]]) -> list[str]:
    return sorted(each["Type"].removeprefix("AWS::EC2::") for each in resources.values())


GROUP = ["SecurityGroup", "SecurityGroupEgress", "SecurityGroupEgress", "SecurityGroupIngress"]
LOG, DEFAULT_GROUP = "AWS::Logs::LogGroup", "Custom::VpcRestrictDefaultSG"


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("network", "expected"),
    [
        pytest.param(OWN_VPC, [LOG, DEFAULT_GROUP, *GROUP, "Subnet", "VPC"], id="a VPC with NAT"),
        pytest.param(ISOLATED, [LOG, DEFAULT_GROUP, *GROUP, "Subnet", "VPC"], id="an isolated VPC"),
        pytest.param(ADDED, [*GROUP, "Subnet", "VPCCidrBlock"], id="new subnets in an existing VPC"),
        pytest.param(EXISTING, GROUP, id="existing subnets"),
    ],
)
def test_what_a_retained_file_system_stands_in_is_retained(
    network: dict[str, Any], expected: list[str]
) -> None:
    assert types(kept(built(**network))) == sorted(expected)


@pytest.mark.parametrize("network", [OWN_VPC, ISOLATED, ADDED])
def test_it_is_the_subnet_of_the_file_system_that_stays(network: dict[str, Any]) -> None:
    cluster = built(**network)
    (subnet,) = [name for name, each in kept(cluster).items() if each["Type"] == "AWS::EC2::Subnet"]
    (file_system,) = cluster.resources("storage", "AWS::FSx::FileSystem").values()

    assert subnet in str(file_system["Properties"]["SubnetIds"])


@pytest.mark.parametrize("network", [OWN_VPC, ISOLATED, ADDED])
def test_nothing_that_stays_names_what_goes(network: dict[str, Any]) -> None:
    """EC2 deletes nothing that something else still names, such as the group of the endpoints in a rule."""
    cluster = built(**network)
    stays = kept(cluster)
    going = cluster.template("network")["Resources"].keys() - stays.keys()
    by_other_resources = [each["Properties"] for each in stays.values() if not each["Type"].startswith("Cus")]

    assert going
    assert not [name for name in going if any(f"'{name}'" in str(each) for each in by_other_resources)]


def test_rule_to_the_endpoints_goes_with_them() -> None:
    cluster = built(**ISOLATED)
    rules = resources_of(cluster.template("network"), "AWS::EC2::SecurityGroupEgress")
    to_endpoints = [name for name, each in rules.items() if "Endpoints" in str(each["Properties"])]

    assert len(to_endpoints) == 1
    assert not kept(cluster).keys() & set(to_endpoints)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize("network", [OWN_VPC, ISOLATED, ADDED, EXISTING])
def test_the_same_stays_without_a_file_system(network: dict[str, Any]) -> None:
    """One that was taken out of the cluster file is retained, and still stands in it."""
    assert kept(built(**network, lustre=None)) == kept(built(**network))


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize("network", [OWN_VPC, ISOLATED, ADDED, EXISTING])
def test_where_nothing_is_retained_all_goes(network: dict[str, Any]) -> None:
    assert kept(built("destroy", **network)) == {}
