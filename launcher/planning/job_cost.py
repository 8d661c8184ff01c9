"""What a job's hosts cost: the price of one times the hosts and the time, in words.

The words say what the price is: a list price of SageMaker, of the job's region or of another, or an estimate
from EC2's, and of which day. What is not known is said to be.

`prices.json` holds list prices of SageMaker, `ec2_prices.json` EC2's of the same machines, each with its
region and date. For hosts with accelerators SageMaker asks a multiple of EC2's price, the same for all of a
kind wherever both prices of a region are known. So a price of EC2's times that multiple stands in where
SageMaker's own is not known, and says that it is an estimate.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from launcher.facts import read_data_file
from launcher.frozen import frozen
from launcher.planning.request_view import CostLimit, RequestView
from launcher.text.values import exact_duration

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec

SHORTEST_RUN_SECONDS: Final = 600
"""Hosts are billed while image and data are downloaded and ranks start: minutes, a bound of our own."""


@frozen
class CostEstimate:
    """What the hosts cost on demand, in US dollars, without storage, traffic, discounts and taxes.

    `per_hour` counts all hosts, and in a search over hyperparameters those of all jobs that run at a
    time. `at_limit` is for all hosts for the whole MaxRuntimeInSeconds, which bounds all attempts of
    the service together (SageMaker API reference, StoppingCondition), and for all jobs of a search.
    `price_date` is the date of the price, `price_region` the region that has it; both are None of a price
    that the job file gives. With `spot` the bill
    is lower; by how much is not known before. `estimated_by` is set where SageMaker's price is not known:
    the multiple by which it is estimated from EC2's, of that region and day.
    """

    per_hour: float
    at_limit: float
    price_date: datetime.date | None
    price_region: str | None
    spot: bool = False
    estimated_by: PriceMultiple | None = None


def estimate_cost(request: RequestView, region: str | None) -> CostEstimate | None:
    """The estimate for a CreateTrainingJob or CreateHyperParameterTuningJob request.

    `region` is where it goes, None where that is not known. The result is None where no price of the
    instance type is known or can be estimated in any region. Of several types, among which the service
    chooses, it is the estimate for the dearest.
    """
    price, budget = _dearest_price(request.instance_types, region), request.budget
    usd = price.usd_per_hour if price is not None else budget.usd_per_hour if budget is not None else None
    if usd is None:
        return None
    per_job = usd * (request.hosts or 1)
    per_hour = per_job * request.jobs_at_once
    at_limit = per_job * request.max_runtime_seconds / 3600
    if request.search is not None:
        at_limit *= request.search.jobs
        if request.search.max_seconds is not None:
            at_limit = min(at_limit, per_hour * request.search.max_seconds / 3600)
    if price is None:
        return CostEstimate(per_hour, at_limit, None, None, spot=request.is_spot)
    return CostEstimate(
        per_hour, at_limit, price.as_of, price.region, spot=request.is_spot, estimated_by=price.estimated_by
    )


def plan_budget(job: JobSpec, region: str | None) -> CostLimit | None:
    """What a job may cost, and how fast it spends that, by the dearest of the types that it may get.

    None where its file says nothing of it, where no price is known and the file gives none, and with a
    training plan, which is paid for as a whole.
    """
    limits, resources = job.limits, job.resources
    if resources.capacity.training_plan is not None:
        return None
    chosen_later = resources.instance_types if resources.instance_choice == "service" else ()
    price = _dearest_price((resources.instance_type, *chosen_later), region)
    if limits.max_usd is None:
        known = price is not None or limits.usd_per_hour is None
        return None if known else CostLimit(None, round(limits.usd_per_hour or 0, 4))
    usd_per_hour = limits.usd_per_hour if price is None else price.usd_per_hour
    return None if usd_per_hour is None else CostLimit(round(limits.max_usd, 2), round(usd_per_hour, 4))


def _dearest_price(instance_types: Sequence[str], region: str | None) -> HostPrice | None:
    """The highest of the types' prices; None where one of them is not known."""
    prices = [host_price(each, region) for each in instance_types]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    return max(known, key=lambda each: each.usd_per_hour)


def spent_usd(request: RequestView, region: str | None, billable_seconds: float) -> float | None:
    """What a job has cost whose hosts were billed for so many seconds each; None where no price is known.

    It holds for spot hosts, too: they are billed for fewer seconds than they ran. With a training plan it is
    None, as that is paid for as a whole.
    """
    estimate = None if request.training_plan is not None else estimate_cost(request, region)
    return None if estimate is None else estimate.per_hour * billable_seconds / 3600


def bill_in_words(request: RequestView, region: str | None, billable_seconds: float) -> str | None:
    """What a job has cost, in one line; None where no price is known."""
    usd = spent_usd(request, region, billable_seconds)
    if usd is None:
        return None
    hosts = request.hosts or 1
    budget = request.budget.max_usd if request.budget is not None else None
    within = f" of {_usd(budget)}" if budget is not None else ""
    billed = f"{exact_duration(round(billable_seconds))} of {hosts} {'host' if hosts == 1 else 'hosts'}"
    return f"{_usd(usd)}{within} ({billed}; storage and traffic apart)"


def cost_in_words(request: RequestView, region: str | None) -> str:
    """The estimate in one line, with the date and region of its price; also where there is no price.

    `region` is where the request goes, None where that is not known.
    """
    estimate = estimate_cost(request, region)
    if request.training_plan is not None:
        return f"paid up front with the training plan{_on_demand_in_words(estimate)}"
    if estimate is None:
        unpriced = _type_without_price(request, region) or "such hosts"
        return (
            f"unknown: the price table of {newest_price_date()} has no {unpriced}; "
            "see aws.amazon.com/sagemaker/ai/pricing"
        )
    figures = f"{_hourly_in_words(estimate)} an hour, {_most_in_words(request, estimate)}"
    if estimate.spot:
        figures = f"at most {figures}: the on-demand price, {_SPOT}"
    dearest = ", the dearest of its types" if len(request.instance_types) > 1 else ""
    return (
        f"{figures} ({_price_in_words(estimate, region)}{dearest}; hosts alone{_warm_pool_in_words(request)})"
    )


def part_cost_in_words(request: RequestView, region: str | None, part: float) -> str | None:
    """What a part (0 to 1) of the hosts costs an hour, in one phrase with the price's date and region.

    None where the table has no price, and for a training plan, which is paid for whole.
    """
    estimate = estimate_cost(request, region)
    if estimate is None or request.training_plan is not None:
        return None
    most, spot = ("at most ", f"; {_SPOT}") if estimate.spot else ("", "")
    return (
        f"{most}{_usd(estimate.per_hour * part)} of {_hourly_in_words(estimate)} an hour "
        f"({_price_in_words(estimate, region)}{spot})"
    )


_SPOT: Final = "that of spot varies below it"


def _hourly_in_words(estimate: CostEstimate) -> str:
    return f"{'about ' if estimate.estimated_by else ''}{_usd(estimate.per_hour)}"


def _type_without_price(request: RequestView, region: str | None) -> str | None:
    return next((each for each in request.instance_types if host_price(each, region) is None), None)


def _most_in_words(request: RequestView, estimate: CostEstimate) -> str:
    """What it may cost: by its budget, where that ends first, else by its limit."""
    if request.budget is None or request.budget.max_usd is None:
        return f"up to {_usd(estimate.at_limit)} {_limit_in_words(request)}"
    attempts = request.max_retries + 1
    within = "" if attempts == 1 else f" in {attempts} attempts, or more where each gets further"
    return f"at most {_usd(request.budget.max_usd)} (limits.max_usd){within}"


def _limit_in_words(request: RequestView) -> str:
    """What the second figure is for."""
    each, search = exact_duration(request.max_runtime_seconds), request.search
    if search is None:
        return f"in {each}"
    within = f", {exact_duration(search.max_seconds)} in all" if search.max_seconds is not None else ""
    return f"for {search.jobs} jobs of {each}, {search.parallel} at a time{within}"


def _price_in_words(estimate: CostEstimate, region: str | None) -> str:
    if estimate.price_region is None:
        return "by limits.usd_per_hour, as no price is known"
    price = f"list price of {estimate.price_region}, {estimate.price_date}"
    if estimate.estimated_by is not None:
        price = (
            f"estimated: EC2's price of {estimate.price_region}, {estimate.price_date}, "
            f"times {_multiple_in_words(estimate.estimated_by)}"
        )
    if region == estimate.price_region:
        return price
    return f"{price}; {region or 'the region of the job'} may have another"


def _multiple_in_words(multiple: PriceMultiple) -> str:
    return (
        f"{multiple.times:g}, as SageMaker asks in all {multiple.pairs} cases of "
        f"{', '.join(multiple.families)} where both prices are known"
    )


def _on_demand_in_words(estimate: CostEstimate | None) -> str:
    if estimate is None:
        return ""
    source = "estimated from EC2's, " if estimate.estimated_by else ""
    origin = f"{source}{estimate.price_region}, {estimate.price_date}"
    return f" (on demand {_hourly_in_words(estimate)} an hour, {origin})"


def _warm_pool_in_words(request: RequestView) -> str:
    """A warm pool is billed like the job that it waits for (developer guide, train-warm-pools)."""
    seconds = request.keep_alive_seconds if request.budget is None else 0
    return f", without {exact_duration(seconds)} of warm pool" if seconds else ""


def _usd(amount: float) -> str:
    return f"{amount:,.2f} USD"


# What an hour of one host costs on demand.


PRICE_TOLERANCE: Final = 0.005
"""By how much a known pair of prices may differ from the multiple of its kind; list prices are rounded."""

_KINDS: Final = {
    "p4": "P and Trainium",
    "p5": "P and Trainium",
    "p6": "P and Trainium",
    "trn": "P and Trainium",
    "g": "G",
}
"""Families by how their names begin. Others have no known pair of prices (P2, P3), so no estimate."""


@frozen
class PriceMultiple:
    """How many times EC2's price SageMaker asks for a kind of host.

    `pairs` is how many hosts and regions it is known from, `families` which families these are of.
    """

    times: float
    pairs: int
    families: tuple[str, ...]


@frozen
class HostPrice:
    """US dollars for one host and hour on demand, in a region, as of a day.

    `estimated_by` is None for a list price of SageMaker; for an estimate the multiple by which it was made
    of EC2's price, whose region and day it has.
    """

    usd_per_hour: float
    as_of: datetime.date
    region: str
    estimated_by: PriceMultiple | None = None


def host_price(instance_type: str | None, region: str | None) -> HostPrice | None:
    """The price of an instance type (`ml.`) in a region, None where nothing is known of the type.

    A list price of the region comes first, then an estimate for the region. Then, as where the region is
    None, the first region of the table that lists the type, and last an estimate for any region.
    """
    known = host_prices(instance_type or "")
    return next((price for price in known if price.region == region), next(iter(known), None))


def host_prices(instance_type: str) -> list[HostPrice]:
    """All known prices of an instance type (`ml.`), of every region: list prices, then estimates."""
    return [*_listed_prices().get(instance_type, ()), *_estimate_host_prices(instance_type)]


def newest_price_date() -> datetime.date:
    """The date of the newest list price."""
    return max(price.as_of for prices in _listed_prices().values() for price in prices)


def host_kind(instance_type: str) -> str | None:
    """The kind of host of which one multiple holds, for a type of EC2 (`p5.48xlarge`); None without one.

    Of the G family the smallest hosts are a kind of their own: SageMaker asks relatively more for them.
    """
    family, _, size = instance_type.partition(".")
    found = next((name for prefix, name in _KINDS.items() if family.startswith(prefix)), None)
    return f"{found}, smallest" if found == "G" and size == "xlarge" else found


def find_multiples(
    listed: Mapping[str, Sequence[HostPrice]], ec2: Mapping[str, Sequence[HostPrice]]
) -> dict[str, PriceMultiple]:
    """The multiple of each kind that has a steady one, from all hosts whose two prices a region has.

    `listed` are prices of SageMaker by its instance types, `ec2` prices of EC2 by EC2's.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    for instance_type, theirs, ours in _price_pairs(listed, ec2):
        name = host_kind(instance_type)
        if name is not None:
            found.setdefault(name, []).append((instance_type.partition(".")[0], ours / theirs))
    measured = {name: _steady_multiple(pairs) for name, pairs in found.items()}
    return {name: multiple for name, multiple in measured.items() if multiple is not None}


def _steady_multiple(pairs: Sequence[tuple[str, float]]) -> PriceMultiple | None:
    times = round(sorted(ratio for _, ratio in pairs)[len(pairs) // 2], 2)
    if any(abs(ratio / times - 1) > PRICE_TOLERANCE for _, ratio in pairs):
        return None
    return PriceMultiple(times, len(pairs), tuple(sorted({family for family, _ in pairs})))


def _price_pairs(
    listed: Mapping[str, Sequence[HostPrice]], ec2: Mapping[str, Sequence[HostPrice]]
) -> Iterator[tuple[str, float, float]]:
    for instance_type, prices in ec2.items():
        ours = {price.region: price.usd_per_hour for price in listed.get(f"ml.{instance_type}", ())}
        for price in prices:
            if price.region in ours:
                yield instance_type, price.usd_per_hour, ours[price.region]


def _estimate_host_prices(instance_type: str) -> Iterator[HostPrice]:
    name = instance_type.removeprefix("ml.")
    multiple = _known_multiples().get(host_kind(name) or "")
    if multiple is None:
        return
    for price in _ec2_prices().get(name, ()):
        yield HostPrice(price.usd_per_hour * multiple.times, price.as_of, price.region, multiple)


@cache
def _known_multiples() -> dict[str, PriceMultiple]:
    return find_multiples(_listed_prices(), _ec2_prices())


@cache
def _listed_prices() -> dict[str, list[HostPrice]]:
    return _prices_by_type("prices.json")


@cache
def _ec2_prices() -> dict[str, list[HostPrice]]:
    return _prices_by_type("ec2_prices.json")


def _prices_by_type(file: str) -> dict[str, list[HostPrice]]:
    """By instance type, in the order of the file."""
    table: dict[str, list[HostPrice]] = {}
    for price_list in read_data_file(__file__, file)["lists"]:
        as_of = datetime.date.fromisoformat(price_list["as_of"])
        for instance_type, usd in price_list["prices"].items():
            table.setdefault(instance_type, []).append(HostPrice(usd, as_of, price_list["region"]))
    return table
