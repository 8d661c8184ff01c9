"""The costs at rest: the arithmetic is right, and the quantities are those of the templates."""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from tests.stacks import synthesis

PAGE = synthesis.ROOT / "docs" / "costs.md"

COUNTED = {
    "NAT gateway": "AWS::EC2::NatGateway",
    "public IPv4 address": "AWS::EC2::EIP",
    "KMS keys": "AWS::KMS::Key",
    "dashboards": "AWS::CloudWatch::Dashboard",
}


def lines_of(cluster: str) -> dict[str, tuple[list[float], float]]:
    """What a cluster's table says: the factors and the product of each line."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {cluster}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|*]+) \| ([\d. x]+) = ([\d.]+) \|$", section, re.MULTILINE)
    return {what: ([float(each) for each in sum_.split(" x ")], float(total)) for what, sum_, total in rows}


def total_of(cluster: str) -> float:
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {cluster}\n")[1]
    return float(re.findall(r"\*\*together\*\* \| \*\*([\d.]+)\*\*", section)[0])


@pytest.mark.parametrize("cluster", synthesis.CLUSTERS)
def test_every_line_and_the_sum_are_computed_right(cluster: str) -> None:
    lines = lines_of(cluster)
    assert all(math.isclose(math.prod(factors), total) for factors, total in lines.values())
    assert math.isclose(sum(total for _, total in lines.values()), total_of(cluster))


@pytest.mark.parametrize("cluster", synthesis.CLUSTERS)
def test_the_quantities_are_those_that_would_be_provisioned(cluster: str) -> None:
    app = synthesis.cluster(cluster)
    resources = [each for part in app.parts for each in app.template(part)["Resources"].values()]
    count = Counter(resource["Type"] for resource in resources)
    expected = {what: count[type_] for what, type_ in COUNTED.items()}
    for resource in resources:
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::FSx::FileSystem":
            expected["Lustre"] = properties["StorageCapacity"]
        if properties.get("VpcEndpointType") == "Interface":
            expected["interface endpoints"] = expected.get("interface endpoints", 0) + len(
                properties["SubnetIds"]
            )
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "MetricName" in properties:
            expected["alarms on one metric"] = expected.get("alarms on one metric", 0) + 1
    told = {
        what.split(" ")[0] if "Lustre" in what else what: lines[0][0]
        for what, lines in lines_of(cluster).items()
    }
    assert told == {what: number for what, number in expected.items() if number}
