"""What a cluster costs a month while no job runs: its templates times `resting_prices.json`.

Nothing in the table is derived from another price. What it has no price for is listed with what is there and
no amount, and is in no sum.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from launcher.cluster.files import Template, resources
from launcher.facts import read_data_file
from launcher.frozen import frozen


@frozen
class RestingPrice:
    """A list price in US dollars `per` hour, hour and zone, GB-month or month.

    `region` is None where it holds in all. One that is not `verified` has no readable source.
    """

    product: str
    what: str
    per: str
    usd: float
    region: str | None
    verified: bool
    source: str
    looked_up: datetime.date


@frozen
class CostLine:
    """What one kind of thing costs: the `quantity` of it (pieces, or GB of storage) and its price.

    `price` is None where the table has none. With `stands_in` the price is that of another region.
    """

    what: str
    quantity: int
    price: RestingPrice | None
    stands_in: bool = False

    @property
    def factors(self) -> tuple[float, ...]:
        """What is multiplied: quantity, hours of a month where they count, price; none without a price."""
        if self.price is None:
            return ()
        hours = (hours_a_month(),) if self.price.per.startswith("hour") else ()
        return (self.quantity, *hours, self.price.usd)

    @property
    def usd_a_month(self) -> float | None:
        """US dollars a month; None where the price is not known."""
        return math.prod(self.factors) if self.price else None

    @property
    def reservation(self) -> str:
        """What speaks against the amount, in words; empty where nothing does."""
        if self.price is None:
            return "price not known"
        doubts = [
            *(["price not verified"] if not self.price.verified else []),
            *([f"price of {self.price.region}"] if self.stands_in else []),
        ]
        return ", ".join(doubts)


def rest_costs(templates: Iterable[Template], region: str) -> tuple[CostLine, ...]:
    """What the resources of these templates cost a month in the region, a line for each kind.

    Left out is what costs nothing while it is not used, such as groups, roles, empty buckets.
    """
    found: Counter[tuple[str, str]] = Counter()
    for resource in (each for template in templates for each in resources(template).values()):
        for product, what, quantity in _charged(resource["Type"], resource.get("Properties", {})):
            found[product, what] += quantity
    lines = [_line(product, what, number, region) for (product, what), number in found.items()]
    order = [price.product for price in prices()]
    return tuple(
        sorted(lines, key=lambda line: order.index(line.price.product) if line.price else len(order))
    )


def total(lines: Sequence[CostLine]) -> float:
    """US dollars a month of all lines whose price is known."""
    return sum(line.usd_a_month or 0 for line in lines)


def not_priced(lines: Sequence[CostLine]) -> tuple[CostLine, ...]:
    """The lines that are in no sum, as nobody knows their price."""
    return tuple(line for line in lines if line.price is None)


def prices() -> tuple[RestingPrice, ...]:
    """The table, in the order in which lines are told."""
    looked_up = datetime.date.fromisoformat(_table()["as_of"])
    return tuple(RestingPrice(**each, looked_up=looked_up) for each in _table()["prices"])


def hours_a_month() -> int:
    """Of a month as AWS's calculator counts it."""
    hours: int = _table()["hours_a_month"]
    return hours


@cache
def _table() -> dict[str, Any]:
    return read_data_file(__file__, "resting_prices.json")


def _line(product: str, what: str, quantity: int, region: str) -> CostLine:
    known = [price for price in prices() if price.product == product]
    chosen = next((price for price in known if price.region in (region, None)), next(iter(known), None))
    return CostLine(
        what, quantity, chosen, stands_in=chosen is not None and chosen.region not in (region, None)
    )


def _charged(kind: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """The products that a resource is billed as, each with its name in a line and how many."""
    if kind in _PIECES:
        yield *_PIECES[kind], 1
    elif kind == "AWS::EC2::VPCEndpoint" and properties.get("VpcEndpointType") == "Interface":
        # Billed in each zone, and an endpoint has one subnet in a zone.
        yield "interface-endpoint", "interface endpoints", len(properties["SubnetIds"])
    elif kind == "AWS::CloudWatch::Alarm" and "MetricName" in properties:
        # One on a query is billed by the metrics that it reads, so by the hosts that run.
        yield "alarm", "alarms on one metric", 1
    elif kind == "AWS::FSx::FileSystem":
        yield from _file_system(properties)
    elif kind == "AWS::SageMaker::Cluster":
        # Billed for as long as they are there, whether jobs run or not.
        for group in properties["InstanceGroups"]:
            if group["InstanceCount"]:
                type_ = group["InstanceType"]
                yield f"hyperpod {type_}", f"HyperPod nodes of {type_}", int(group["InstanceCount"])


def _file_system(properties: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    lustre = properties["LustreConfiguration"]
    deployment, storage = lustre["DeploymentType"], properties.get("StorageType", "SSD")
    name = f"Lustre {deployment}" + (f" {storage}" if storage != "SSD" else "")
    rate = lustre.get("PerUnitStorageThroughput")
    product = " ".join(["lustre", deployment, storage, *([str(rate)] if rate else [])])
    if "StorageCapacity" in properties:
        words = f"{name}, {rate} MB/s per TiB" if rate else name
        yield product, words, int(properties["StorageCapacity"])
    else:
        # Intelligent-Tiering is billed by its throughput, its cache and what is stored.
        yield product, f"{name}, {lustre.get('ThroughputCapacity')} MB/s", 1
    metadata = lustre.get("MetadataConfiguration", {})
    if metadata.get("Mode") == "USER_PROVISIONED":
        yield "lustre metadata", "metadata IOPS of Lustre", int(metadata["Iops"])


_PIECES = {
    "AWS::EC2::NatGateway": ("nat-gateway", "NAT gateway"),
    "AWS::EC2::EIP": ("public-ipv4", "public IPv4 address"),
    "AWS::KMS::Key": ("kms-key", "KMS keys"),
    "AWS::CloudWatch::Dashboard": ("dashboard", "dashboards"),
}
"""By type: the product of one, and what some of them are called in a line."""
