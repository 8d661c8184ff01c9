"""What an hour of one host costs on demand: as SageMaker lists it, or estimated from what EC2 asks.

`prices.json` holds list prices of SageMaker, `ec2_prices.json` EC2's of the same machines, each with its
region and date. For hosts with accelerators SageMaker asks a multiple of EC2's price, the same for all of a
kind wherever both prices of a region are known. So a price of EC2's times that multiple stands in where
SageMaker's own is not known, and says that it is an estimate.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from launcher.facts.data_file import read_data_file

STEADY: Final = 0.005
"""By how much a known pair of prices may differ from the multiple of its kind; list prices are rounded."""

_KINDS: Final = {
    "p4": "P and Trainium",
    "p5": "P and Trainium",
    "p6": "P and Trainium",
    "trn": "P and Trainium",
    "g": "G",
}
"""Families by how their names begin. Others have no known pair of prices (P2, P3), so no estimate."""


@dataclass(frozen=True, slots=True)
class Multiple:
    """How many times EC2's price SageMaker asks for a kind of host.

    `pairs` is how many hosts and regions it is known from, `families` which families these are of.
    """

    times: float
    pairs: int
    families: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostPrice:
    """US dollars for one host and hour on demand, in a region, as of a day.

    `estimated_by` is None for a list price of SageMaker; for an estimate the multiple by which it was made
    of EC2's price, whose region and day it has.
    """

    usd_per_hour: float
    as_of: datetime.date
    region: str
    estimated_by: Multiple | None = None


def host_price(instance_type: str | None, region: str | None) -> HostPrice | None:
    """The price of an instance type (`ml.`) in a region, None where nothing is known of the type.

    A list price of the region comes first, then an estimate for the region. Then, as where the region is
    None, the first region of the table that lists the type, and last an estimate for any region.
    """
    name = instance_type or ""
    known = [*_listed().get(name, ()), *_estimates(name)]
    return next((price for price in known if price.region == region), next(iter(known), None))


def table_date() -> datetime.date:
    """The date of the newest list price."""
    return max(price.as_of for prices in _listed().values() for price in prices)


def kind(instance_type: str) -> str | None:
    """The kind of host of which one multiple holds, for a type of EC2 (`p5.48xlarge`); None without one.

    Of the G family the smallest hosts are a kind of their own: SageMaker asks relatively more for them.
    """
    family, _, size = instance_type.partition(".")
    found = next((name for prefix, name in _KINDS.items() if family.startswith(prefix)), None)
    return f"{found}, smallest" if found == "G" and size == "xlarge" else found


def multiples(
    listed: Mapping[str, Sequence[HostPrice]], ec2: Mapping[str, Sequence[HostPrice]]
) -> dict[str, Multiple]:
    """The multiple of each kind that has a steady one, from all hosts whose two prices a region has.

    `listed` are prices of SageMaker by its instance types, `ec2` prices of EC2 by EC2's.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    for instance_type, theirs, ours in _pairs(listed, ec2):
        name = kind(instance_type)
        if name is not None:
            found.setdefault(name, []).append((instance_type.partition(".")[0], ours / theirs))
    measured = {name: _multiple(pairs) for name, pairs in found.items()}
    return {name: multiple for name, multiple in measured.items() if multiple is not None}


def _multiple(pairs: Sequence[tuple[str, float]]) -> Multiple | None:
    times = round(sorted(ratio for _, ratio in pairs)[len(pairs) // 2], 2)
    if any(abs(ratio / times - 1) > STEADY for _, ratio in pairs):
        return None
    return Multiple(times, len(pairs), tuple(sorted({family for family, _ in pairs})))


def _pairs(
    listed: Mapping[str, Sequence[HostPrice]], ec2: Mapping[str, Sequence[HostPrice]]
) -> Iterator[tuple[str, float, float]]:
    for instance_type, prices in ec2.items():
        ours = {price.region: price.usd_per_hour for price in listed.get(f"ml.{instance_type}", ())}
        for price in prices:
            if price.region in ours:
                yield instance_type, price.usd_per_hour, ours[price.region]


def _estimates(instance_type: str) -> Iterator[HostPrice]:
    name = instance_type.removeprefix("ml.")
    multiple = _multiples().get(kind(name) or "")
    if multiple is None:
        return
    for price in _ec2().get(name, ()):
        yield HostPrice(price.usd_per_hour * multiple.times, price.as_of, price.region, multiple)


@cache
def _multiples() -> dict[str, Multiple]:
    return multiples(_listed(), _ec2())


@cache
def _listed() -> dict[str, list[HostPrice]]:
    return _table("prices.json")


@cache
def _ec2() -> dict[str, list[HostPrice]]:
    return _table("ec2_prices.json")


def _table(file: str) -> dict[str, list[HostPrice]]:
    """By instance type, in the order of the file."""
    table: dict[str, list[HostPrice]] = {}
    for price_list in read_data_file(__file__, file)["lists"]:
        as_of = datetime.date.fromisoformat(price_list["as_of"])
        for instance_type, usd in price_list["prices"].items():
            table.setdefault(instance_type, []).append(HostPrice(usd, as_of, price_list["region"]))
    return table
