"""EC2's prices on demand as two repositories publish them, read from their generated files.

Of both are kept the hosts that SageMaker trains on and whose prices tell what it asks
(`launcher.planning.job_cost.host_kind`). Both readers raise ValueError for a file that is written otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.cluster.instances import training_instance_types
from launcher.planning.job_cost import host_kind


@dataclass(frozen=True, slots=True)
class PriceLists:
    """Prices by region and instance type in US dollars an hour, and the day on which they were read."""

    as_of: str
    prices: dict[str, dict[str, float]]


def karpenter_prices(source: str) -> PriceLists:
    """Karpenter's Go file, from AWS's Price List API; it has one region."""
    head = re.search(r"^// generated at ([0-9-]{10})T\S+ for (\S+)$", source, re.MULTILINE)
    if head is None:
        raise ValueError("Karpenter's file does not say when and for which region it was generated")
    prices = re.findall(r'"([a-z0-9-]+\.[a-z0-9-]+)": ([0-9.]+),', source)
    return PriceLists(head[1], {head[2]: _of_training({name: float(usd) for name, usd in prices})})


def aws_gpu_prices(source: str) -> PriceLists:
    """aws-gpu's JavaScript file, from instances.vantage.sh; it has all regions and zones with prices."""
    head = re.search(r"^// Last updated: ([0-9-]{10})$", source, re.MULTILINE)
    opening, closing = source.find("= ["), source.rfind("];")
    if head is None or opening < 0 or closing < 0:
        raise ValueError("aws-gpu's file does not say when it was updated, or its list is written otherwise")
    regions: dict[str, dict[str, float]] = {}
    for each in json.loads(source[opening + 2 : closing + 1]):
        for region, price in each["pricing"].items():
            if "onDemand" in price:
                regions.setdefault(region, {})[each["name"]] = price["onDemand"]
    return PriceLists(head[1], {region: _of_training(prices) for region, prices in regions.items()})


def _of_training(prices: Mapping[str, float]) -> dict[str, float]:
    trained = {name.removeprefix("ml.") for name in training_instance_types()}
    return {name: usd for name, usd in sorted(prices.items()) if name in trained and host_kind(name)}
