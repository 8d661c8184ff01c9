"""The instance types that a job could have: what is kept, what is excluded and why, and their order."""

from __future__ import annotations

import json
import math

import pytest

from launcher.cluster.instances import (
    accelerator_names,
    bf16_tflops,
    instance_facts,
    regions_with_offers,
    training_instance_types,
)
from launcher.failure_modes.model import Refusal
from launcher.planning.find_hosts import FoundHosts, Order, find_hosts, read_needs
from launcher.planning.job_cost import host_price


def found_types(found: FoundHosts) -> list[str]:
    return [each.instance_type for each in found.choices]


def test_sixteen_h100_are_two_hosts_of_eight_or_sixteen_of_one() -> None:
    found = find_hosts(read_needs(gpu="h100", count=16, region="us-west-2"))
    assert {each.instance_type: each.hosts for each in found.choices} == {
        "ml.p5.48xlarge": 2,
        "ml.p5.4xlarge": 16,
    }


def test_of_equal_prices_fewer_hosts_come_first() -> None:
    first, second = find_hosts(read_needs(gpu="H100", count=16, region="us-west-2")).choices
    assert (first.instance_type, second.instance_type) == ("ml.p5.48xlarge", "ml.p5.4xlarge")
    assert first.usd_per_hour == pytest.approx(second.usd_per_hour)


def test_the_price_is_that_of_all_hosts_in_the_region_with_its_day() -> None:
    (choice,) = find_hosts(
        read_needs(gpu="H100", count=16, region="us-west-2", efa=True, memory="80GB")
    ).choices[:1]
    price = host_price("ml.p5.48xlarge", "us-west-2")
    assert choice.price == price
    assert choice.usd_per_hour == pytest.approx(2 * price.usd_per_hour)
    assert choice.usd_per_tflop_hour == pytest.approx(2 * price.usd_per_hour / (16 * 989.5))


def test_gpus_that_no_number_of_hosts_has_exactly_are_rounded_up() -> None:
    found = {each.instance_type: each for each in find_hosts(read_needs(gpu="H100", count=12)).choices}
    assert (found["ml.p5.48xlarge"].hosts, found["ml.p5.48xlarge"].accelerators) == (2, 16)


def test_without_a_count_a_host_of_each_is_looked_at() -> None:
    assert {each.hosts for each in find_hosts(read_needs()).choices} == {1}


def test_memory_is_that_of_each_gpu_and_not_of_the_host() -> None:
    found = found_types(find_hosts(read_needs(memory="80GB")))
    assert "ml.p5.48xlarge" in found
    assert "ml.p4d.24xlarge" not in found
    assert all(instance_facts(each).accelerator_memory_mib * 2**20 >= 80e9 for each in found)


def test_a_gpu_has_the_memory_that_it_is_sold_with() -> None:
    """EC2 tells a few MiB less of an A10G and an L40S than 24 and 48 GB."""
    assert "ml.g5.xlarge" in found_types(find_hosts(read_needs(memory="24GB")))
    assert "ml.g6e.xlarge" in found_types(find_hosts(read_needs(memory="48GB")))
    assert "ml.g6e.xlarge" not in found_types(find_hosts(read_needs(memory="49GB")))


def test_a_highest_price_is_for_all_hosts_together() -> None:
    found = find_hosts(read_needs(gpu="H100", max_usd_hour=70, region="us-west-2"))
    assert found_types(found) == ["ml.p5.4xlarge", "ml.p5.48xlarge"]
    both = find_hosts(read_needs(gpu="H100", count=16, max_usd_hour=70, region="us-west-2"))
    assert found_types(both) == []


def test_what_has_no_known_price_does_not_meet_a_highest_price_and_is_told_apart() -> None:
    (exclusion,) = find_hosts(read_needs(max_usd_hour=1000)).exclusions
    assert "ml.trn2.48xlarge" in exclusion.unknown
    assert exclusion.excluded == ()


def test_only_hosts_with_efa_are_kept() -> None:
    found = find_hosts(read_needs(efa=True)).choices
    assert found
    assert all(each.facts.efa_gbps > 0 for each in found)


def test_spot_is_where_the_service_has_a_quota_for_it() -> None:
    found = found_types(find_hosts(read_needs(spot=True)))
    assert "ml.p5.48xlarge" in found
    assert "ml.trn2.48xlarge" not in found


def test_only_what_a_region_has_is_kept() -> None:
    found = found_types(find_hosts(read_needs(region="us-west-1")))
    assert "ml.p5.48xlarge" in found
    assert "ml.p4d.24xlarge" not in found


def test_a_known_price_shows_that_a_region_has_the_type() -> None:
    assert "ml.p4d.24xlarge" in found_types(find_hosts(read_needs(region="ap-southeast-1")))


def test_without_a_region_the_lowest_price_counts() -> None:
    (choice,) = (
        each
        for each in find_hosts(read_needs(gpu="B200")).choices
        if each.instance_type == "ml.p6-b200.48xlarge"
    )
    assert choice.price.region == "us-east-1"
    assert choice.usd_per_hour < host_price("ml.p6-b200.48xlarge", "ap-south-1").usd_per_hour


@pytest.mark.parametrize("order", Order)
def test_the_cheapest_comes_first_and_what_has_no_price_last(order: Order) -> None:
    found = find_hosts(read_needs(), order)
    prices = [each.usd_per_hour if order is Order.HOUR else each.usd_per_tflop_hour for each in found.choices]
    as_numbers = [math.inf if each is None else round(each, 6) for each in prices]
    assert as_numbers == sorted(as_numbers)
    assert prices[-1] is None


def test_by_tflop_a_large_gpu_can_be_cheaper_than_a_small_one() -> None:
    needs = read_needs(count=8)
    by_hour, by_tflop = (found_types(find_hosts(needs, order)) for order in Order)
    assert by_hour.index("ml.g4dn.xlarge") < by_hour.index("ml.p5.48xlarge")
    assert by_tflop.index("ml.p5.48xlarge") < by_tflop.index("ml.g5.xlarge")


def test_where_nothing_is_found_each_condition_says_what_it_excludes_alone() -> None:
    found = find_hosts(read_needs(gpu="H100", region="eu-west-1", max_usd_hour=100))
    assert found.choices == ()
    by_gpu, by_region, by_price = found.exclusions
    assert by_gpu.condition == "--gpu H100"
    assert len(by_gpu.excluded) == 60
    assert "ml.p4d.24xlarge" in by_gpu.alone
    assert by_region.condition == "--region eu-west-1"
    assert by_region.alone == ("ml.p5.4xlarge", "ml.p5.48xlarge")
    assert by_price.condition == "--max-usd-hour 100"
    assert by_price.alone == ()


def test_a_gpu_is_found_however_it_is_written() -> None:
    for name in ("RTX PRO 4500", "rtx-pro-4500", "rtxpro4500"):
        assert read_needs(gpu=name).accelerator == "RTX PRO 4500"


WRONG_NEEDS = [
    ({"gpu": "H1000"}, "--gpu H1000", "H100"),
    ({"gpu": ""}, "--gpu", "There are A100"),
    ({"count": 0}, "--count 0", "--count 16"),
    ({"count": -8}, "--count -8", "--count 16"),
    ({"memory": "80X"}, "--memory 80X", "80GB"),
    ({"memory": "9" * 400 + ".5GB"}, "--memory", "80GB"),
    ({"region": "mars-1"}, "--region mars-1", "us-west-2"),
    ({"region": "us-wst-2"}, "--region us-wst-2", "Did you mean us-west-2"),
    ({"max_usd_hour": 0}, "--max-usd-hour 0", "100"),
    ({"max_usd_hour": math.nan}, "--max-usd-hour nan", "100"),
]


@pytest.mark.parametrize(("given", "told", "remedy"), WRONG_NEEDS, ids=lambda each: str(each)[:30])
def test_a_need_that_cannot_be_is_refused_with_its_value(given: dict, told: str, remedy: str) -> None:
    with pytest.raises(Refusal) as refused:
        read_needs(**given)
    assert told in refused.value.message
    assert remedy in refused.value.remedy


def test_every_type_with_accelerators_can_be_written_as_json() -> None:
    found = find_hosts(read_needs())
    names = [each["instance_type"] for each in json.loads(json.dumps([c.to_json() for c in found.choices]))]
    with_gpus = [name for name in training_instance_types() if instance_facts(name).accelerators]
    assert sorted(names) == with_gpus
    assert found.looked_at == len(with_gpus)


def test_every_accelerator_is_one_of_a_type_and_says_how_fast_it_is() -> None:
    facts = map(instance_facts, training_instance_types())
    assert sorted({each.accelerator for each in facts if each.accelerator}) == accelerator_names()
    unknown = [name for name in accelerator_names() if bf16_tflops(name) is None]
    assert unknown == ["RTX PRO 4500", "RTX PRO Server 6000"]
    # Tensor cores know BF16 from compute capability 8.0 on (CUDA C++ programming guide).
    for name in training_instance_types():
        each = instance_facts(name)
        if each.has_gpus and bf16_tflops(each.accelerator) is not None:
            assert (bf16_tflops(each.accelerator) > 0) == (float(each.compute_capability) >= 8), name


def test_prices_are_of_regions_that_are_known() -> None:
    for choice in find_hosts(read_needs()).choices:
        assert set(choice.regions) <= set(regions_with_offers())
