"""What changes of a cluster file do to the templates of the real stacks, against what the table says."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from launcher.cluster.files import Template
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import Policy, changes
from launcher.provisioning.updates import Fate, StackChange, compare, create_only
from tests.stacks.synthesis import CLUSTERS, cluster, synthesize

PERSISTENT = {"deployment": "PERSISTENT_2", "throughput": 1000, "capacity_gib": 4800, "metadata": "automatic"}
LINKS = [{"path": "/a", "s3_uri": "s3://corpus/a"}, {"path": "/b", "s3_uri": "s3://corpus/b"}]
BASE: dict[str, Any] = {
    "name": "team",
    "region": "us-west-2",
    "availability_zones": ["us-west-2a"],
    "vpc": {"cidr": "10.64.0.0/18"},
    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 2}],
    "lustre": PERSISTENT,
    "observability": {"email": "team@example.org"},
}


def spec(**changed: Any) -> ClusterSpec:
    given = changed.pop("lustre", {})
    lustre = None if given is None else {**PERSISTENT, **given}
    return ClusterSpec.model_validate({**BASE, "lustre": lustre, **changed})


@cache
def _templates(json: str) -> dict[str, Template]:
    synthesized = synthesize(ClusterSpec.model_validate_json(json))
    stacks = synthesized.stacks
    return {getattr(stacks, part).stack_name: synthesized.template(part) for part in synthesized.parts}


def updated(before: ClusterSpec, after: ClusterSpec) -> tuple[StackChange, ...]:
    return compare(_templates(before.model_dump_json()), _templates(after.model_dump_json()))


def types(stacks: tuple[StackChange, ...], fate: Fate) -> set[str]:
    return {each.type for stack in stacks for each in stack.resources if each.fate is fate}


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    "changed",
    [
        {"lustre": {"deployment": "PERSISTENT_1", "throughput": 200, "metadata": None}},
        {"lustre": {"throughput": 500, "capacity_gib": 9600}},
        {"lustre": {"efa": True}},
        {"lustre": {"backup": {"retention_days": 7}}},
        {"encryption": "new-key"},
    ],
    ids=str,
)
def test_what_the_table_says_replaces_data_replaces_the_file_system(changed: dict[str, Any]) -> None:
    before, after = spec(), spec(**changed)

    assert Policy.REPLACES_DATA in {each.policy for each in changes(before, after)}
    assert "AWS::FSx::FileSystem" in types(updated(before, after), Fate.REPLACED)


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize(
    "changed",
    [
        {"lustre": {"compression": "NONE"}},
        {"lustre": {"metadata": {"iops": 12000}}},
        {"lustre": {"associations": LINKS}},
        {"data_buckets": ["corpus"]},
        {"launchers": ["arn:aws:iam::111122223333:role/alice"]},
        {"removal_policy": "destroy"},
        {"tags": {"team": "research"}},
        {"queue": {"shares": {"a": 1.0}}},
        {"observability": {"email": "team@example.org", "monthly_budget_usd": 9, "idle_gpu_minutes": 60}},
    ],
    ids=str,
)
def test_what_the_table_says_is_in_place_replaces_deletes_and_blocks_nothing(changed: dict[str, Any]) -> None:
    before, after = spec(), spec(**changed)
    stacks = updated(before, after)

    assert {each.policy for each in changes(before, after)} == {Policy.IN_PLACE}
    assert types(stacks, Fate.REPLACED) == types(stacks, Fate.DELETED) == set()
    assert not any(stack.fails for stack in stacks)


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize(
    ("changed", "taken"),
    [
        ({"availability_zones": ["us-west-2b"]}, "overlap with 10.64.0.0/20"),
        ({"vpc": {"cidr": "10.80.0.0/18"}}, "InternetGatewayId"),
        ({"vpc": {"cidr": "10.80.0.0/18"}}, "AllocationId"),
        ({"max_hosts": 20}, "overlap"),
    ],
    ids=str,
)
@pytest.mark.parametrize("lustre", [PERSISTENT, None], ids=["with Lustre", "without Lustre"])
def test_a_network_that_aws_would_not_move_is_told_by_table_and_comparison(
    changed: dict[str, Any], taken: str, lustre: Any
) -> None:
    before, after = spec(lustre=lustre), spec(lustre=lustre, **changed)

    assert Policy.FAILS in {each.policy for each in changes(before, after)}
    assert any(taken in each for stack in updated(before, after) for each in stack.collisions)


def test_links_are_numbered_so_that_the_second_cannot_become_the_first() -> None:
    stacks = updated(spec(lustre={"associations": LINKS}), spec(lustre={"associations": LINKS[1:]}))

    assert any("the folder /b" in each for stack in stacks for each in stack.collisions)


def test_a_subscription_is_replaced_by_the_new_address() -> None:
    stacks = updated(spec(), spec(observability={"email": "other@example.org"}))

    assert types(stacks, Fate.DELETED) == types(stacks, Fate.ADDED) == {"AWS::SNS::Subscription"}


@pytest.mark.few_cases("p5-large")
@pytest.mark.parametrize("name", CLUSTERS)
def test_every_type_of_the_templates_is_in_the_table_of_fixed_properties(name: str) -> None:
    synthesized = cluster(name)
    found = {
        resource["Type"]
        for part in synthesized.parts
        for resource in synthesized.template(part)["Resources"].values()
    }

    assert {type_ for type_ in found if create_only(type_) is None} == set()
