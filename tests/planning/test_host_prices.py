"""What one host costs, and the two tables that say so."""

from __future__ import annotations

import datetime
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import training_instance_types
from launcher.planning.host_prices import HostPrice, host_price, kind, multiples, table_date

DAY = datetime.date(2026, 9, 1)


def table(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(
        resources.files("launcher.planning").joinpath(name).read_text("utf-8")
    )
    return content


LISTED, EC2 = table("prices.json"), table("ec2_prices.json")

REGIONS = ("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "ap-northeast-1")

NOT_OFFERED = {
    ("ml.g6.xlarge", "eu-west-1"),
    ("ml.g6e.48xlarge", "eu-west-1"),
    ("ml.p5.48xlarge", "eu-west-1"),
    ("ml.p5en.48xlarge", "eu-west-1"),
    ("ml.p6-b200.48xlarge", "ap-northeast-1"),
    ("ml.p6-b200.48xlarge", "eu-west-1"),
    ("ml.trn1.32xlarge", "ap-northeast-1"),
    ("ml.trn1.32xlarge", "eu-west-1"),
}
"""What EC2 had no price for in the region either when its prices were read."""


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize(
    "instance_type",
    [
        *("ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.p5en.48xlarge", "ml.p6-b200.48xlarge"),
        *("ml.g5.xlarge", "ml.g5.48xlarge", "ml.g6.xlarge", "ml.g6e.48xlarge", "ml.trn1.32xlarge"),
    ],
)
def test_what_people_train_on_has_a_price_where_they_do(instance_type: str, region: str) -> None:
    price = host_price(instance_type, region)
    assert price is not None
    assert (price.region == region) is ((instance_type, region) not in NOT_OFFERED)


@pytest.mark.parametrize(
    "instance_type", ["ml.trn2.48xlarge", "ml.p5e.48xlarge", "ml.p6e-gb200.36xlarge", "ml.p3.2xlarge"]
)
def test_what_neither_table_can_tell_is_unknown(instance_type: str) -> None:
    assert host_price(instance_type, "us-east-1") is None


@pytest.mark.parametrize(
    ("instance_type", "region", "found", "estimated"),
    [
        pytest.param("ml.p4d.24xlarge", "us-west-2", "us-west-2", False, id="a list price of the region"),
        pytest.param("ml.p4d.24xlarge", "eu-west-1", "eu-west-1", True, id="then an estimate for it"),
        pytest.param("ml.p5.48xlarge", "eu-west-1", "us-east-1", False, id="then another list price"),
        pytest.param("ml.p6-b300.48xlarge", "eu-west-1", "us-east-1", True, id="then another estimate"),
        pytest.param(
            "ml.p5en.48xlarge", None, "ap-south-1", False, id="a list price where no region is known"
        ),
    ],
)
def test_the_nearest_to_what_is_paid_comes_first(
    instance_type: str, region: str | None, found: str, estimated: bool
) -> None:
    price = host_price(instance_type, region)
    assert price is not None
    assert (price.region, price.estimated_by is not None) == (found, estimated)


def test_an_estimate_is_ec2s_price_times_what_sagemaker_asks_for_the_kind() -> None:
    price = host_price("ml.p4d.24xlarge", "eu-west-1")
    assert price is not None and price.estimated_by is not None
    assert price.usd_per_hour == pytest.approx(23.71569 * 1.15)
    assert price.as_of == datetime.date(2026, 1, 21)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("p6-b200.48xlarge", "P and Trainium"),
        ("trn1n.32xlarge", "P and Trainium"),
        ("g6e.xlarge", "G, smallest"),
        ("g4dn.12xlarge", "G"),
        ("p3.2xlarge", None),
        ("m5.xlarge", None),
    ],
)
def test_a_multiple_holds_for_a_kind_of_host(name: str, found: str | None) -> None:
    assert kind(name) == found


def test_a_multiple_is_measured_where_a_region_has_both_prices() -> None:
    listed = {"ml.p5.48xlarge": [_price(63.296)], "ml.p4d.24xlarge": [_price(25.251, "eu-west-1")]}
    ec2 = {"p5.48xlarge": [_price(55.04)], "p4d.24xlarge": [_price(21.957642)]}
    (found,) = multiples(listed, ec2).values()
    assert (found.times, found.pairs, found.families) == (1.15, 1, ("p5",))


def test_a_kind_without_a_steady_multiple_has_none() -> None:
    ec2 = {"p5.48xlarge": [_price(55.04)], "p4d.24xlarge": [_price(21.957642)], "g5.xlarge": [_price(1.0)]}
    listed = {
        "ml.p5.48xlarge": [_price(63.296)],
        "ml.p4d.24xlarge": [_price(25.251 * 1.006)],
        "ml.g5.xlarge": [_price(1.4)],
    }
    assert list(multiples(listed, ec2)) == ["G, smallest"]


def test_each_multiple_is_measured_on_many_hosts() -> None:
    for name in ("ml.p6-b300.48xlarge", "ml.g6.xlarge", "ml.g6.2xlarge"):
        price = host_price(name, "us-east-2")
        assert price is not None and price.estimated_by is not None
        assert price.estimated_by.pairs >= 12


@pytest.mark.parametrize("prices", LISTED["lists"], ids=lambda each: f"{each['region']} {each['as_of']}")
def test_every_list_price_has_a_date_a_region_and_a_source(prices: dict[str, Any]) -> None:
    assert datetime.date.fromisoformat(prices["as_of"]) <= table_date()
    assert "AWS Price List" in prices["source"] and len(prices["source"]) > 40
    assert prices["region"].count("-") == 2
    assert prices["prices"].keys() <= set(training_instance_types())
    assert all(0 < price < 500 for price in prices["prices"].values())


@pytest.mark.parametrize("prices", EC2["lists"], ids=lambda each: each["region"])
def test_every_price_of_ec2_has_a_date_a_region_and_a_source(prices: dict[str, Any]) -> None:
    assert EC2["as_of"] <= prices["as_of"]
    assert " at commit " in prices["source"]
    assert {f"ml.{name}" for name in prices["prices"]} <= set(training_instance_types())
    assert all(0 < price < 500 for price in prices["prices"].values())


@pytest.mark.parametrize("prices", [LISTED, EC2], ids=["SageMaker", "EC2"])
def test_no_type_has_two_prices_in_a_region(prices: dict[str, Any]) -> None:
    known = [(each["region"], name) for each in prices["lists"] for name in each["prices"]]
    assert len(known) == len(set(known))


@pytest.mark.parametrize("prices", [LISTED, EC2], ids=["SageMaker", "EC2"])
def test_no_price_is_older_than_the_cut_of_june_2025(prices: dict[str, Any]) -> None:
    oldest = min(datetime.date.fromisoformat(each["as_of"]) for each in prices["lists"])
    assert oldest > datetime.date(2025, 6, 30)
    assert oldest == datetime.date.fromisoformat(prices["as_of"])


PAGE = (Path(__file__).parents[2] / "docs" / "costs.md").read_text("utf-8")
ROWS = re.findall(r"^\| (p4d|p5|p5en|p6-b200|g5|g6|g6e|trn1) \| (.+) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("family", "cells"), ROWS, ids=[family for family, _ in ROWS])
def test_the_page_tells_what_is_listed_and_what_is_estimated(family: str, cells: str) -> None:
    types = [name for name in training_instance_types() if name.startswith(f"ml.{family}.")]
    for region, cell in zip(REGIONS, cells.split(" | "), strict=True):
        assert set(cell.split(" or ")) == {_told(host_price(name, region), region) for name in types}, region


def test_the_page_has_the_families_that_people_train_on() -> None:
    assert len(ROWS) == 8


def _told(price: HostPrice | None, region: str) -> str:
    if price is None or price.region != region:
        return "none"
    return "estimate" if price.estimated_by else "list"


def _price(usd: float, region: str = "us-east-1") -> HostPrice:
    return HostPrice(usd, DAY, region)
