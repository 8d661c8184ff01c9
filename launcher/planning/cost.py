"""What a job's hosts cost: an estimate from `prices.json`, a table of list prices, each with its date.

The table holds what SageMaker asks for training on demand, in US dollars per instance and hour, as read
in AWS's public price list by the sources that stand beside the figures. Nothing in it is derived from
another price: a type that no source names is missing, and said to be.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from functools import cache

from launcher.facts.data_file import read_data_file
from launcher.planning.request_view import RequestView
from launcher.text.durations import exact_duration


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What the hosts cost on demand, in US dollars, without storage, traffic, discounts and taxes.

    `per_hour` counts all hosts, and in a search over hyperparameters those of all jobs that run at a
    time. `at_limit` is for all hosts for the whole MaxRuntimeInSeconds, which bounds all attempts of
    the service together (SageMaker API reference, StoppingCondition), and for all jobs of a search.
    `price_date` is the date of the price, `price_region` the region that has it. With `spot` the bill
    is lower; by how much is not known before.
    """

    per_hour: float
    at_limit: float
    price_date: datetime.date
    price_region: str
    spot: bool = False


def estimate_cost(request: RequestView, region: str | None) -> CostEstimate | None:
    """The estimate for a CreateTrainingJob or CreateHyperParameterTuningJob request.

    `region` is where it goes, None where that is not known. The result is None where the table has no
    price of the instance type in any region. Of several types, among which the service chooses, it is
    the estimate for the dearest.
    """
    prices = [_price(each, region) for each in request.instance_types]
    known = [price for price in prices if price is not None]
    if not known or len(known) < len(prices):
        return None
    price = max(known, key=lambda each: each.usd_per_hour)
    per_job = price.usd_per_hour * (request.hosts or 1)
    per_hour = per_job * request.jobs_at_once
    at_limit = per_job * request.max_runtime_seconds / 3600
    if request.search is not None:
        at_limit *= request.search.jobs
        if request.search.max_seconds is not None:
            at_limit = min(at_limit, per_hour * request.search.max_seconds / 3600)
    return CostEstimate(per_hour, at_limit, price.as_of, price.region, spot=request.is_spot)


def cost_in_words(request: RequestView, region: str | None) -> str:
    """The estimate in one line, with the date and region of its price; also where there is no price.

    `region` is where the request goes, None where that is not known.
    """
    estimate = estimate_cost(request, region)
    if request.training_plan is not None:
        return f"paid up front with the training plan{_on_demand(estimate)}"
    if estimate is None:
        return (
            f"unknown: the price table of {table_date()} has no {_unpriced(request) or 'such hosts'}; "
            "see aws.amazon.com/sagemaker/ai/pricing"
        )
    figures = f"{_usd(estimate.per_hour)} an hour, up to {_usd(estimate.at_limit)} {_bounds(request)}"
    if estimate.spot:
        figures = f"at most {figures}: the on-demand price, that of spot varies below it"
    dearest = ", the dearest of its types" if len(request.instance_types) > 1 else ""
    return f"{figures} ({_origin(estimate, region)}{dearest}; hosts alone{_warm_pool(request)})"


def cost_of_a_part(request: RequestView, region: str | None, part: float) -> str | None:
    """What a part (0 to 1) of the hosts costs an hour, in one phrase with the price's date and region.

    None where the table has no price, and for a training plan, which is paid for whole.
    """
    estimate = estimate_cost(request, region)
    if estimate is None or request.training_plan is not None:
        return None
    most = "at most " if estimate.spot else ""
    return (
        f"{most}{_usd(estimate.per_hour * part)} of {_usd(estimate.per_hour)} an hour "
        f"({_origin(estimate, region)})"
    )


def table_date() -> datetime.date:
    """The date of the newest price in the table."""
    return max(price.as_of for prices in _table().values() for price in prices)


@dataclass(frozen=True, slots=True)
class _Price:
    usd_per_hour: float
    as_of: datetime.date
    region: str


def _unpriced(request: RequestView) -> str | None:
    return next((each for each in request.instance_types if each not in _table()), None)


def _bounds(request: RequestView) -> str:
    """What the second figure is for."""
    each, search = exact_duration(request.max_runtime_seconds), request.search
    if search is None:
        return f"in {each}"
    within = f", {exact_duration(search.max_seconds)} in all" if search.max_seconds is not None else ""
    return f"for {search.jobs} jobs of {each}, {search.parallel} at a time{within}"


def _origin(estimate: CostEstimate, region: str | None) -> str:
    price = f"list price of {estimate.price_region}, {estimate.price_date}"
    if region == estimate.price_region:
        return price
    return f"{price}; {region or 'the region of the job'} may have another"


def _on_demand(estimate: CostEstimate | None) -> str:
    if estimate is None:
        return ""
    return f" (on demand {_usd(estimate.per_hour)} an hour, {estimate.price_region}, {estimate.price_date})"


def _warm_pool(request: RequestView) -> str:
    """A warm pool is billed like the job that it waits for (developer guide, train-warm-pools)."""
    seconds = request.keep_alive_seconds
    return f", without {exact_duration(seconds)} of warm pool" if seconds else ""


def _usd(amount: float) -> str:
    return f"{amount:,.2f} USD"


def _price(instance_type: str | None, region: str | None) -> _Price | None:
    """The price in the region, else in the first region of the table that has one."""
    prices = _table().get(instance_type or "", ())
    return next((price for price in prices if price.region == region), next(iter(prices), None))


@cache
def _table() -> dict[str, list[_Price]]:
    """By instance type, in the order of the file."""
    table: dict[str, list[_Price]] = {}
    for price_list in read_data_file(__file__, "prices.json")["lists"]:
        as_of = datetime.date.fromisoformat(price_list["as_of"])
        for instance_type, usd in price_list["prices"].items():
            table.setdefault(instance_type, []).append(_Price(usd, as_of, price_list["region"]))
    return table
