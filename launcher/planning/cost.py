"""What a job's hosts cost: the price of one (`host_prices.py`) times the hosts and the time, in words.

The words say what the price is: a list price of SageMaker, of the job's region or of another, or an estimate
from EC2's, and of which day. What is not known is said to be.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Final

from launcher.planning.host_prices import Multiple, host_price, table_date
from launcher.planning.request_view import RequestView
from launcher.text.durations import exact_duration


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What the hosts cost on demand, in US dollars, without storage, traffic, discounts and taxes.

    `per_hour` counts all hosts, and in a search over hyperparameters those of all jobs that run at a
    time. `at_limit` is for all hosts for the whole MaxRuntimeInSeconds, which bounds all attempts of
    the service together (SageMaker API reference, StoppingCondition), and for all jobs of a search.
    `price_date` is the date of the price, `price_region` the region that has it. With `spot` the bill
    is lower; by how much is not known before. `estimated_by` is set where SageMaker's price is not known:
    the multiple by which it is estimated from EC2's, of that region and day.
    """

    per_hour: float
    at_limit: float
    price_date: datetime.date
    price_region: str
    spot: bool = False
    estimated_by: Multiple | None = None


def estimate_cost(request: RequestView, region: str | None) -> CostEstimate | None:
    """The estimate for a CreateTrainingJob or CreateHyperParameterTuningJob request.

    `region` is where it goes, None where that is not known. The result is None where no price of the
    instance type is known or can be estimated in any region. Of several types, among which the service
    chooses, it is the estimate for the dearest.
    """
    prices = [host_price(each, region) for each in request.instance_types]
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
    return CostEstimate(
        per_hour, at_limit, price.as_of, price.region, spot=request.is_spot, estimated_by=price.estimated_by
    )


def cost_in_words(request: RequestView, region: str | None) -> str:
    """The estimate in one line, with the date and region of its price; also where there is no price.

    `region` is where the request goes, None where that is not known.
    """
    estimate = estimate_cost(request, region)
    if request.training_plan is not None:
        return f"paid up front with the training plan{_on_demand(estimate)}"
    if estimate is None:
        unpriced = _unpriced(request, region) or "such hosts"
        return (
            f"unknown: the price table of {table_date()} has no {unpriced}; "
            "see aws.amazon.com/sagemaker/ai/pricing"
        )
    figures = f"{_amount(estimate)} an hour, up to {_usd(estimate.at_limit)} {_bounds(request)}"
    if estimate.spot:
        figures = f"at most {figures}: the on-demand price, {_SPOT}"
    dearest = ", the dearest of its types" if len(request.instance_types) > 1 else ""
    return f"{figures} ({_origin(estimate, region)}{dearest}; hosts alone{_warm_pool(request)})"


def cost_of_a_part(request: RequestView, region: str | None, part: float) -> str | None:
    """What a part (0 to 1) of the hosts costs an hour, in one phrase with the price's date and region.

    None where the table has no price, and for a training plan, which is paid for whole.
    """
    estimate = estimate_cost(request, region)
    if estimate is None or request.training_plan is not None:
        return None
    most, spot = ("at most ", f"; {_SPOT}") if estimate.spot else ("", "")
    return (
        f"{most}{_usd(estimate.per_hour * part)} of {_amount(estimate)} an hour "
        f"({_origin(estimate, region)}{spot})"
    )


_SPOT: Final = "that of spot varies below it"


def _amount(estimate: CostEstimate) -> str:
    return f"{'about ' if estimate.estimated_by else ''}{_usd(estimate.per_hour)}"


def _unpriced(request: RequestView, region: str | None) -> str | None:
    return next((each for each in request.instance_types if host_price(each, region) is None), None)


def _bounds(request: RequestView) -> str:
    """What the second figure is for."""
    each, search = exact_duration(request.max_runtime_seconds), request.search
    if search is None:
        return f"in {each}"
    within = f", {exact_duration(search.max_seconds)} in all" if search.max_seconds is not None else ""
    return f"for {search.jobs} jobs of {each}, {search.parallel} at a time{within}"


def _origin(estimate: CostEstimate, region: str | None) -> str:
    price = f"list price of {estimate.price_region}, {estimate.price_date}"
    if estimate.estimated_by is not None:
        price = (
            f"estimated: EC2's price of {estimate.price_region}, {estimate.price_date}, "
            f"times {_in_words(estimate.estimated_by)}"
        )
    if region == estimate.price_region:
        return price
    return f"{price}; {region or 'the region of the job'} may have another"


def _in_words(multiple: Multiple) -> str:
    return (
        f"{multiple.times:g}, as SageMaker asks in all {multiple.pairs} cases of "
        f"{', '.join(multiple.families)} where both prices are known"
    )


def _on_demand(estimate: CostEstimate | None) -> str:
    if estimate is None:
        return ""
    source = "estimated from EC2's, " if estimate.estimated_by else ""
    origin = f"{source}{estimate.price_region}, {estimate.price_date}"
    return f" (on demand {_amount(estimate)} an hour, {origin})"


def _warm_pool(request: RequestView) -> str:
    """A warm pool is billed like the job that it waits for (developer guide, train-warm-pools)."""
    seconds = request.keep_alive_seconds
    return f", without {exact_duration(seconds)} of warm pool" if seconds else ""


def _usd(amount: float) -> str:
    return f"{amount:,.2f} USD"
