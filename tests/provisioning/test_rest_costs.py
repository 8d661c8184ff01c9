"""What a cluster costs at rest, from its templates."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.provisioning.rest_costs import not_priced, prices, rest_costs, total
from tests.stacks import synthesis


def template(**resources: dict[str, Any]) -> dict[str, Any]:
    return {"Resources": resources}


def lustre(
    region: str = "us-west-2", *, storage: str = "SSD", capacity: int | None = 1200, **lustre: Any
) -> Any:
    properties = {"StorageType": storage, "LustreConfiguration": lustre}
    if capacity is not None:
        properties["StorageCapacity"] = capacity
    return rest_costs([template(Files={"Type": "AWS::FSx::FileSystem", "Properties": properties})], region)


def endpoint(subnets: int) -> dict[str, Any]:
    ids = [{"Ref": f"Subnet{number}"} for number in range(subnets)]
    return {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface", "SubnetIds": ids}}


def test_a_nat_gateway_is_paid_by_the_hour() -> None:
    (line,) = rest_costs([template(Nat={"Type": "AWS::EC2::NatGateway"})], "us-west-2")
    assert line.factors == (1, 730, 0.045)
    assert line.usd_a_month == pytest.approx(32.85)
    assert line.reservation == ""


def test_things_of_one_kind_are_one_line_across_all_stacks() -> None:
    (line,) = rest_costs([template(A=endpoint(2)), template(B=endpoint(1))], "us-west-2")
    assert (line.what, line.quantity) == ("interface endpoints", 3)


def test_a_file_system_is_paid_by_its_capacity() -> None:
    (line,) = lustre(DeploymentType="PERSISTENT_2", PerUnitStorageThroughput=125, capacity=2400)
    assert line.usd_a_month == pytest.approx(2400 * 0.145)


@pytest.mark.parametrize(
    "unknown",
    [
        {"DeploymentType": "PERSISTENT_2", "storage": "INTELLIGENT_TIERING", "capacity": None,
         "ThroughputCapacity": 4000},
        {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 1000},
        {"DeploymentType": "PERSISTENT_1", "storage": "HDD", "PerUnitStorageThroughput": 12},
    ],
    ids=lambda each: f"{each.get('storage', 'SSD')}",
)  # fmt: skip
def test_a_file_system_without_a_price_is_told_and_in_no_sum(unknown: dict[str, Any]) -> None:
    lines = lustre(**unknown)
    (line,) = not_priced(lines)
    assert line.what.startswith("Lustre") and line.usd_a_month is None
    assert line.reservation == "price not known"
    assert total(lines) == 0


def test_metadata_iops_that_were_ordered_are_not_taken_for_free() -> None:
    lines = lustre(
        DeploymentType="PERSISTENT_2",
        PerUnitStorageThroughput=125,
        MetadataConfiguration={"Mode": "USER_PROVISIONED", "Iops": 12000},
    )
    assert [(line.what, line.quantity) for line in not_priced(lines)] == [("metadata IOPS of Lustre", 12000)]


def test_another_regions_price_stands_in_and_says_so() -> None:
    (line,) = rest_costs([template(Nat={"Type": "AWS::EC2::NatGateway"})], "eu-north-1")
    assert line.usd_a_month == pytest.approx(32.85)
    assert line.reservation == "price of us-west-2"


def test_what_costs_nothing_at_rest_is_no_line() -> None:
    free = {"Type": "AWS::S3::Bucket"}, {"Type": "AWS::EC2::VPC"}, {"Type": "AWS::CloudWatch::Alarm"}
    gateway = {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"ServiceName": "s3"}}
    numbered = {f"Free{number}": each for number, each in enumerate([*free, gateway])}
    assert rest_costs([template(**numbered), {}], "us-west-2") == ()


def test_every_price_says_where_it_comes_from() -> None:
    assert all(price.usd > 0 and len(price.source) > 10 for price in prices())
    assert len({(price.product, price.region) for price in prices()}) == len(prices())


@pytest.mark.parametrize("cluster", synthesis.CLUSTERS)
def test_every_line_of_a_shipped_cluster_has_a_price(cluster: str) -> None:
    app = synthesis.cluster(cluster)
    lines = rest_costs([app.template(part) for part in app.parts], "us-west-2")
    assert not_priced(lines) == ()
    assert total(lines) > 100
