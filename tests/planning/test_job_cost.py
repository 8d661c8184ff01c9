"""What a job's hosts cost, in figures and in words, and the two tables that say so."""

from __future__ import annotations

import datetime
import json
import re
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.instances import training_instance_types
from launcher.planning.job_cost import (
    HostPrice,
    cost_in_words,
    estimate_cost,
    find_multiples,
    host_kind,
    host_price,
    newest_price_date,
    part_cost_in_words,
)
from launcher.planning.request_view import RequestView
from tests.planning.plan_cases import make_plan

P5, DAY = "ml.p5.48xlarge", 86400


def training(instance_type: str = P5, hosts: int = 2, seconds: int = DAY, **more: Any) -> dict[str, Any]:
    resource_config: dict[str, Any] = {"InstanceType": instance_type, "InstanceCount": hosts}
    if "plan" in more:
        resource_config["TrainingPlanArn"] = more.pop("plan")
    return {
        "TrainingJobName": "digits-0unique",
        "ResourceConfig": resource_config,
        "StoppingCondition": {"MaxRuntimeInSeconds": seconds},
        **more,
    }


def search(definition: dict[str, Any], ranges: dict[str, Any] | None = None, **limits: int) -> dict[str, Any]:
    return {
        "HyperParameterTuningJobName": "digits-0unique",
        "TrainingJobDefinition": {
            key: value for key, value in definition.items() if key != "TrainingJobName"
        },
        "HyperParameterTuningJobConfig": {"ResourceLimits": limits, "ParameterRanges": ranges or {}},
    }


def test_all_hosts_are_counted_by_the_hour_and_for_the_whole_limit() -> None:
    estimate = estimate_cost(RequestView(training(hosts=2, seconds=DAY)), "us-east-1")
    assert estimate is not None
    assert estimate.per_hour == pytest.approx(2 * 63.296)
    assert estimate.at_limit == pytest.approx(2 * 63.296 * 24)
    assert (estimate.price_region, estimate.price_date) == ("us-east-1", datetime.date(2026, 9, 4))


def test_a_search_counts_its_parallel_jobs_by_the_hour_and_all_of_them_at_the_limit() -> None:
    request = search(training(hosts=2, seconds=3600), MaxNumberOfTrainingJobs=20, MaxParallelTrainingJobs=4)
    estimate = estimate_cost(RequestView(request), "us-east-1")
    assert estimate is not None
    assert estimate.per_hour == pytest.approx(4 * 2 * 63.296)
    assert estimate.at_limit == pytest.approx(20 * 2 * 63.296)


def test_the_limit_of_a_whole_search_bounds_what_it_costs() -> None:
    limits = {"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 4, "MaxRuntimeInSeconds": 7200}
    estimate = estimate_cost(RequestView(search(training(hosts=1, seconds=DAY), **limits)), "us-east-1")
    assert estimate is not None
    assert estimate.at_limit == pytest.approx(4 * 63.296 * 2)


def test_a_grid_makes_as_many_jobs_as_it_has_combinations() -> None:
    ranges = {
        "CategoricalParameterRanges": [
            {"Name": "lr", "Values": ["0.1", "0.2", "0.3"]},
            {"Name": "batch", "Values": ["16", "32"]},
        ]
    }
    estimate = estimate_cost(
        RequestView(search(training(hosts=1, seconds=3600), ranges, MaxParallelTrainingJobs=1)), None
    )
    assert estimate is not None
    assert estimate.at_limit == pytest.approx(6 * 63.296)


@pytest.mark.parametrize(
    ("instance_type", "region", "found"),
    [
        pytest.param("ml.g5.xlarge", "us-west-2", "us-west-2", id="its own"),
        pytest.param("ml.m5.large", "eu-west-1", "us-east-1", id="the first where its own is not there"),
        pytest.param("ml.g5.xlarge", None, "us-east-1", id="the first where none is known"),
        pytest.param("ml.g7e.8xlarge", "eu-west-1", "us-west-2", id="the next where the first has none"),
        pytest.param("ml.p6-b200.48xlarge", "eu-west-1", "ap-south-1", id="the only one"),
    ],
)
def test_the_price_is_of_the_jobs_region_where_the_table_has_it(
    instance_type: str, region: str | None, found: str
) -> None:
    estimate = estimate_cost(RequestView(training(instance_type)), region)
    assert estimate is not None and estimate.price_region == found
    words = cost_in_words(RequestView(training(instance_type)), region)
    assert f"list price of {found}, {estimate.price_date}" in words
    assert ("may have another" in words) is (found != region)


def test_an_estimate_of_another_region_says_so() -> None:
    request = RequestView(training("ml.trn1n.32xlarge", hosts=1))
    assert "EC2's price of us-east-1" in cost_in_words(request, "eu-west-1")
    assert "; eu-west-1 may have another; hosts alone" in cost_in_words(request, "eu-west-1")
    assert "; the region of the job may have another" in cost_in_words(request, None)


def test_an_estimate_is_told_from_a_price_by_its_multiple() -> None:
    estimated = estimate_cost(RequestView(training("ml.p4d.24xlarge")), "eu-west-1")
    listed = estimate_cost(RequestView(training("ml.p4d.24xlarge")), "us-east-1")
    assert estimated is not None and listed is not None and listed.estimated_by is None
    assert estimated.estimated_by is not None and estimated.estimated_by.times == 1.15


def test_a_type_without_a_price_is_said_to_have_none() -> None:
    assert estimate_cost(RequestView(training("ml.p6e-gb200.36xlarge")), "us-east-1") is None
    words = cost_in_words(RequestView(training("ml.p6e-gb200.36xlarge")), "us-east-1")
    assert words.startswith(
        f"unknown: the price table of {newest_price_date()} has no ml.p6e-gb200.36xlarge;"
    )


def test_spot_costs_at_most_what_on_demand_does() -> None:
    estimate = estimate_cost(RequestView(training(EnableManagedSpotTraining=True)), "us-east-1")
    assert estimate is not None and estimate.spot


def test_a_part_of_the_hosts_costs_its_share() -> None:
    assert part_cost_in_words(RequestView(training()), "us-east-1", 0.25) == (
        "31.65 USD of 126.59 USD an hour (list price of us-east-1, 2026-09-04)"
    )
    spot = RequestView(training(EnableManagedSpotTraining=True))
    assert part_cost_in_words(spot, "us-east-1", 0.25) == (
        "at most 31.65 USD of 126.59 USD an hour "
        "(list price of us-east-1, 2026-09-04; that of spot varies below it)"
    )
    assert str(part_cost_in_words(RequestView(training()), "us-east-2", 0.25)).startswith(
        "31.65 USD of about 126.59 USD an hour (estimated: EC2's price of us-east-2, 2026-01-21, times 1.15,"
    )


def test_a_part_without_a_price_or_paid_for_whole_has_no_share() -> None:
    assert part_cost_in_words(RequestView(training("ml.p6e-gb200.36xlarge")), "us-east-1", 0.5) is None
    assert part_cost_in_words(RequestView(training(plan="arn")), "us-east-1", 0.5) is None


def test_a_job_of_several_types_costs_what_the_dearest_does() -> None:
    def view(*types: str) -> RequestView:
        others = {"resources.instance_types": list(types[1:]), "resources.instance_choice": "service"}
        several = others if types[1:] else {}
        made = make_plan({"type": types[0], "environment": {"OMP_NUM_THREADS": 4}, **several}).view
        assert made is not None
        return made

    either, dearest = view("ml.g5.xlarge", "ml.g5.2xlarge"), view("ml.g5.2xlarge")
    assert estimate_cost(either, "us-west-2") == estimate_cost(dearest, "us-west-2") is not None
    assert "the dearest of its types" in cost_in_words(either, "us-west-2")
    assert "dearest" not in cost_in_words(dearest, "us-west-2")
    assert "has no ml.p2.xlarge" in cost_in_words(view("ml.g5.xlarge", "ml.p2.xlarge"), "us-west-2")


PRICE_DAY = datetime.date(2026, 9, 1)


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
    assert host_kind(name) == found


def test_a_multiple_is_measured_where_a_region_has_both_prices() -> None:
    listed = {"ml.p5.48xlarge": [_price(63.296)], "ml.p4d.24xlarge": [_price(25.251, "eu-west-1")]}
    ec2 = {"p5.48xlarge": [_price(55.04)], "p4d.24xlarge": [_price(21.957642)]}
    (found,) = find_multiples(listed, ec2).values()
    assert (found.times, found.pairs, found.families) == (1.15, 1, ("p5",))


def test_a_kind_without_a_steady_multiple_has_none() -> None:
    ec2 = {"p5.48xlarge": [_price(55.04)], "p4d.24xlarge": [_price(21.957642)], "g5.xlarge": [_price(1.0)]}
    listed = {
        "ml.p5.48xlarge": [_price(63.296)],
        "ml.p4d.24xlarge": [_price(25.251 * 1.006)],
        "ml.g5.xlarge": [_price(1.4)],
    }
    assert list(find_multiples(listed, ec2)) == ["G, smallest"]


def test_each_multiple_is_measured_on_many_hosts() -> None:
    for name in ("ml.p6-b300.48xlarge", "ml.g6.xlarge", "ml.g6.2xlarge"):
        price = host_price(name, "us-east-2")
        assert price is not None and price.estimated_by is not None
        assert price.estimated_by.pairs >= 12


@pytest.mark.parametrize("prices", LISTED["lists"], ids=lambda each: f"{each['region']} {each['as_of']}")
def test_every_list_price_has_a_date_a_region_and_a_source(prices: dict[str, Any]) -> None:
    assert datetime.date.fromisoformat(prices["as_of"]) <= newest_price_date()
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


PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "costs.md").read_text("utf-8")
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
    return HostPrice(usd, PRICE_DAY, region)
