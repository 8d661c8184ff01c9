"""Subnets that stay where they are: while a cluster grows, and where it was deployed before the slots."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import ClusterSpec
from tests.stacks.synthesis import CLUSTERS, ROOT, Resources, Synthesized, dev_spec, synthesize

BEFORE: dict[str, Resources] = json.loads(
    (ROOT / "tests/stacks/subnets_before_slots.json").read_text("utf-8")
)
"""The subnets of the templates of version 0.1.0, by cluster."""

LUSTRE = {"deployment": "PERSISTENT_2", "throughput": 125, "metadata": "automatic"}
ZONES = ["us-west-2a", "us-west-2b", "us-west-2c"]


@pytest.mark.few_cases("dev")
@pytest.mark.parametrize("name", CLUSTERS)
def test_pinned_network_keeps_the_subnets_that_were_deployed_before(name: str) -> None:
    spec = load_cluster_file(ROOT / "clusters" / f"{name}.yaml")
    pinned = ClusterSpec.model_validate({**spec.model_dump(), "vpc": pins_of_the_release_notes()[name]})

    # What is kept when the stack is deleted is new, and changes nothing of a subnet that stands.
    assert without_policies(subnets(synthesize(pinned))) == without_policies(BEFORE[name])
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
    assert len(grown) == 2 * len(growth.get("availability_zones", ZONES[:1]))


def test_subnets_lie_in_their_slots() -> None:
    network = synthesize(dev_spec(availability_zones=ZONES, max_hosts=20))
    ranges = {each["Properties"]["CidrBlock"] for each in subnets(network).values()}

    assert ranges == {
        *("10.64.0.0/22", "10.64.4.0/22", "10.64.8.0/22"),
        *("10.64.15.240/28", "10.64.15.224/28", "10.64.15.208/28"),
    }


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
