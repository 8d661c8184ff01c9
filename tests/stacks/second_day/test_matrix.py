"""Every field of the cluster file, changed, added and removed: what was predicted is what happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import Policy, changes, fields_of
from launcher.provisioning.updates import Fate, compare
from tests.stacks.second_day.field_changes import BASE, CHANGES, Change, File
from tests.stacks.second_day.in_process import Account, Actions, Outcome, Template, wanted_templates

CASES = [
    pytest.param(change, id=f"{field}-{change.kind}-{number}")
    for field, rows in CHANGES.items()
    for number, change in enumerate(rows)
]


def test_every_field_has_a_row() -> None:
    assert sorted(CHANGES) == sorted(fields_of())


@pytest.mark.second_day
@pytest.mark.parametrize("change", CASES)
def test_what_the_plan_says_is_what_happens(account: Account, change: Change) -> None:
    ids = _what_is_there(account)
    before, after = (_spec(each, ids) for each in (change.before, change.after))
    first = account.deploy(before)
    assert first.failed is None, first.reasons
    wanted = wanted_templates(after)
    predicted, stops_at = _predicted(account.templates(), wanted)

    outcome = account.deploy_templates(wanted)

    if any(each.policy is Policy.FAILS for each in changes(before, after)):
        assert outcome.failed is not None, "the table says that AWS refuses this"
    else:
        assert outcome.failed == stops_at, outcome.reasons
        differences = _differences(predicted, outcome)
        if change.in_other_words:
            assert {*differences.values()} == {("changed", None)}
        else:
            assert differences == {}


def _predicted(
    deployed: Mapping[str, Template], wanted: Mapping[str, Template]
) -> tuple[dict[tuple[str, str], str], str | None]:
    """The actions that the plan tells before the stack at which it stops, and that stack."""
    predicted = {}
    for stack in compare(deployed, wanted):
        if stack.fails:
            return predicted, stack.name
        for each in stack.resources:
            # A policy that changes is no change of the resource.
            policies_alone = {*each.properties} <= {"DeletionPolicy", "UpdateReplacePolicy"}
            if each.fate is not Fate.CHANGED or not policies_alone:
                predicted[stack.name, each.logical_id] = each.fate.value
    return predicted, None


def _differences(predicted: Actions, outcome: Outcome) -> dict[str, tuple[str | None, str | None]]:
    happened = outcome.actions
    return {
        "/".join(place): (predicted.get(place), happened.get(place))
        for place in sorted({*predicted, *happened})
        if predicted.get(place) != happened.get(place)
    }


def _spec(change: Mapping[str, Any], ids: Mapping[str, str]) -> ClusterSpec:
    file: File = {**BASE, **change}
    text = json.dumps(file)
    for name, id_ in ids.items():
        text = text.replace(f"{{{name}}}", id_)
    return ClusterSpec.model_validate(json.loads(text))


def _what_is_there(account: Account) -> dict[str, str]:
    """The networks that an enterprise has: what the words in braces of `CHANGES` stand for."""
    ec2 = account.client("ec2")

    def vpc(cidr: str) -> str:
        return str(ec2.create_vpc(CidrBlock=cidr)["Vpc"]["VpcId"])

    def subnet(vpc_id: str, cidr: str, zone: str) -> str:
        made = ec2.create_subnet(VpcId=vpc_id, CidrBlock=cidr, AvailabilityZone=f"us-west-2{zone}")
        return str(made["Subnet"]["SubnetId"])

    def nat(subnet_id: str) -> str:
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        made = ec2.create_nat_gateway(SubnetId=subnet_id, AllocationId=address)
        return str(made["NatGateway"]["NatGatewayId"])

    first, other = vpc("10.8.0.0/16"), vpc("10.9.0.0/16")
    subnet_b = subnet(first, "10.8.16.0/20", "b")
    group = ec2.create_security_group(GroupName="hosts", Description="hosts", VpcId=first)["GroupId"]
    table = ec2.create_route_table(VpcId=first)["RouteTable"]["RouteTableId"]
    return {
        "vpc": first,
        "subnet_a": subnet(first, "10.8.0.0/20", "a"),
        "subnet_a2": subnet(first, "10.8.32.0/20", "a"),
        "subnet_b": subnet_b,
        "nat": nat(subnet_b),
        "other_nat": nat(subnet_b),
        "group": group,
        "route_table": table,
        "other_vpc": other,
        "other_subnet": subnet(other, "10.9.0.0/20", "a"),
    }
