"""Which instance types a job could have: what it needs, against what is known of each type with accelerators.

A condition keeps the types that are known to meet it. Where none is left, it can be told which condition
excludes what, and of which types nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias

from launcher.account.facts import known_code, quota_name
from launcher.cluster.instances import (
    InstanceFacts,
    accelerator_names,
    bf16_tflops,
    instance_facts,
    offered_types,
    regions_with_offers,
    training_instance_types,
)
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.planning.job_cost import HostPrice, host_price, host_prices
from launcher.text.values import list_in_words, nearest, parse_size

MEMORY_TOLERANCE: Final = 0.001
"""By how much memory may be less than what was asked for: of the 24 GB of an A10G EC2 tells 23.9998."""


class Order(StrEnum):
    """By what the types are sorted: US dollars per hour of all hosts, or those per dense BF16 TFLOPS."""

    HOUR = "hour"
    TFLOP = "tflop"


@frozen
class HostNeeds:
    """What a job needs of its hosts; None and False ask for nothing.

    `accelerators` are those of all hosts together, `memory_bytes` is of each, `max_usd_per_hour` is for all
    hosts on demand. `memory` is what was written for `memory_bytes`.
    """

    accelerator: str | None = None
    accelerators: int | None = None
    memory: str | None = None
    memory_bytes: int | None = None
    region: str | None = None
    max_usd_per_hour: float | None = None
    spot: bool = False
    efa: bool = False


def read_needs(
    *,
    gpu: str | None = None,
    count: int | None = None,
    memory: str | None = None,
    region: str | None = None,
    max_usd_hour: float | None = None,
    spot: bool = False,
    efa: bool = False,
) -> HostNeeds:
    """The needs that options of the command line name.

    Raises Refusal for an accelerator that no type has, a count below 1, a size that is none, a region of
    which nothing is known, and a price that is not above 0.
    """
    if count is not None and count < 1:
        raise Refusal(
            f"--count {count} is no number of GPUs: nothing would be looked for.",
            "Give the GPUs of all hosts together, from 1 on: --count 16.",
        )
    if max_usd_hour is not None and not 0 < max_usd_hour < math.inf:
        raise Refusal(
            f"--max-usd-hour {max_usd_hour:g} is no price: no type costs so much.",
            "Give the US dollars that all hosts together may cost in an hour: --max-usd-hour 100.",
        )
    return HostNeeds(
        accelerator=None if gpu is None else _accelerator(gpu),
        accelerators=count,
        memory=memory,
        memory_bytes=None if memory is None else _memory(memory),
        region=None if region is None else _region(region),
        max_usd_per_hour=max_usd_hour,
        spot=spot,
        efa=efa,
    )


def _accelerator(name: str) -> str:
    known = {_plain(each): each for each in accelerator_names()}
    if _plain(name) in known:
        return known[_plain(name)]
    near = [known[each] for each in nearest(_plain(name), known, most=3, likeness=0.5)]
    hint = f"Did you mean {list_in_words(near, 'or')}? " if near else ""
    raise Refusal(
        f"--gpu {name}: no training instance type has such a GPU, as far as this version knows.",
        f"{hint}There are {list_in_words(accelerator_names(), 'and')}.",
    )


def _plain(name: str) -> str:
    """A name as it is compared: in small letters, without blanks and hyphens."""
    return "".join(name.lower().replace("-", "").split())


def _memory(written: str) -> int:
    try:
        return parse_size(written)
    except (ValueError, OverflowError):
        raise Refusal(
            f"--memory {written} is not a size, so that no type can be compared with it.",
            "Give the memory that each GPU has at least, with its unit: --memory 80GB.",
        ) from None


def _region(name: str) -> str:
    if offered_types(name) is not None:
        return name
    known = regions_with_offers()
    near = nearest(name, known, most=3)
    hint = f"Did you mean {list_in_words(near, 'or')}? " if near else ""
    raise Refusal(
        f"--region {name}: it is not known here which types such a region has.",
        f"{hint}Known are {list_in_words(known, 'and')}.",
    )


@frozen
class HostChoice:
    """An instance type and as many hosts of it as a job needs.

    `price` is that of one host, of the region that was asked for where it is known there, else of another
    one, which it names; where no region was asked for it is the lowest that is known. `has_spot` is None
    where that is not known.
    """

    facts: InstanceFacts
    hosts: int
    price: HostPrice | None
    regions: tuple[str, ...]
    has_spot: bool | None

    @property
    def instance_type(self) -> str:
        """The name of the type."""
        return self.facts.instance_type

    @property
    def accelerators(self) -> int:
        """The accelerators of all hosts together."""
        return self.hosts * self.facts.accelerators

    @property
    def accelerator(self) -> str:
        """What the accelerators are called."""
        return self.facts.accelerator or ""

    @property
    def bf16_tflops(self) -> float | None:
        """The dense BF16 TFLOPS of one accelerator, by its maker's figures; None where not known."""
        return bf16_tflops(self.accelerator)

    @property
    def usd_per_hour(self) -> float | None:
        """US dollars for an hour of all hosts on demand."""
        return None if self.price is None else self.hosts * self.price.usd_per_hour

    @property
    def usd_per_tflop_hour(self) -> float | None:
        """US dollars for an hour of one dense BF16 TFLOPS; None where price or TFLOPS are not known, or 0."""
        usd, tflops = self.usd_per_hour, self.bf16_tflops
        return usd / (tflops * self.accelerators) if usd is not None and tflops else None

    def to_json(self) -> dict[str, Any]:
        """As data for programs; null is what is not known."""
        return {
            "instance_type": self.instance_type,
            "hosts": self.hosts,
            "gpus": self.accelerators,
            "gpu": self.accelerator,
            "gpus_per_host": self.facts.accelerators,
            "gpu_memory_mib": self.facts.accelerator_memory_mib,
            "gpu_bf16_tflops": self.bf16_tflops,
            "efa_interfaces": self.facts.efa_interfaces,
            "efa_gbps": self.facts.efa_gbps,
            "gpudirect_rdma": self.facts.gpudirect_rdma,
            "usd_per_hour": _rounded(self.usd_per_hour, 4),
            "usd_per_tflop_hour": _rounded(self.usd_per_tflop_hour, 6),
            "price": None if self.price is None else _price_json(self.price),
            "regions": list(self.regions),
            "spot": self.has_spot,
        }


def _rounded(number: float | None, digits: int) -> float | None:
    return None if number is None else round(number, digits)


def _price_json(price: HostPrice) -> dict[str, Any]:
    return {
        "usd_per_host_hour": round(price.usd_per_hour, 4),
        "region": price.region,
        "as_of": price.as_of.isoformat(),
        "times_the_price_of_ec2": None if price.estimated_by is None else price.estimated_by.times,
    }


@frozen
class Exclusion:
    """A condition, as its option was written, and the types that it excludes.

    `unknown` are those of which it is not known whether they meet it; `alone` those of all that no other
    condition excludes.
    """

    condition: str
    excluded: tuple[str, ...]
    unknown: tuple[str, ...]
    alone: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As data for programs."""
        return {
            "condition": self.condition,
            "excluded": list(self.excluded),
            "unknown": list(self.unknown),
            "alone": list(self.alone),
        }


@frozen
class FoundHosts:
    """The types that meet all conditions, the first the best, and what each condition excludes.

    `looked_at` counts all training instance types with accelerators.
    """

    choices: tuple[HostChoice, ...]
    exclusions: tuple[Exclusion, ...]
    looked_at: int


def find_hosts(needs: HostNeeds, order: Order = Order.HOUR) -> FoundHosts:
    """The instance types with accelerators that meet the needs, sorted; what has no price comes last."""
    choices = sorted(_every_choice(needs), key=_ORDERS[order])
    conditions = list(_conditions(needs))
    missed = {each.instance_type: [name for name, meets in conditions if not meets(each)] for each in choices}
    exclusions = [_exclusion(name, meets, choices, missed) for name, meets in conditions]
    found = tuple(each for each in choices if not missed[each.instance_type])
    return FoundHosts(found, tuple(exclusions), len(choices))


_Meets: TypeAlias = Callable[[HostChoice], bool | None]
"""Whether a choice meets a condition; None where that is not known."""


def _conditions(needs: HostNeeds) -> Iterator[tuple[str, _Meets]]:
    """Each condition with how its option is written."""
    accelerator, memory, region, most = (
        needs.accelerator,
        needs.memory_bytes,
        needs.region,
        needs.max_usd_per_hour,
    )
    if accelerator is not None:
        yield f"--gpu {_quoted(accelerator)}", lambda each: each.accelerator == accelerator
    if memory is not None:
        least = memory * (1 - MEMORY_TOLERANCE)
        yield f"--memory {needs.memory}", lambda each: _memory_bytes(each) >= least
    if needs.efa:
        yield "--efa", lambda each: each.facts.has_efa
    if region is not None:
        yield f"--region {region}", lambda each: region in each.regions
    if needs.spot:
        yield "--spot", lambda each: each.has_spot
    if most is not None:
        yield (
            f"--max-usd-hour {most:g}",
            lambda each: None if each.usd_per_hour is None else each.usd_per_hour <= most,
        )


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name


def _memory_bytes(choice: HostChoice) -> int:
    return (choice.facts.accelerator_memory_mib or 0) * 2**20


def _exclusion(
    name: str, meets: _Meets, choices: Sequence[HostChoice], missed: dict[str, list[str]]
) -> Exclusion:
    judged = {each.instance_type: meets(each) for each in choices}
    return Exclusion(
        name,
        excluded=tuple(each for each, met in judged.items() if met is False),
        unknown=tuple(each for each, met in judged.items() if met is None),
        alone=tuple(each for each in judged if missed[each] == [name]),
    )


def _every_choice(needs: HostNeeds) -> Iterator[HostChoice]:
    for facts in map(instance_facts, training_instance_types()):
        if facts is None or not facts.accelerators:
            continue
        name = facts.instance_type
        yield HostChoice(
            facts,
            hosts=-(-(needs.accelerators or 1) // facts.accelerators),
            price=_price(name, needs.region),
            regions=_regions(name),
            has_spot=True if known_code(quota_name(name, "spot training job")) else None,
        )


def _price(instance_type: str, region: str | None) -> HostPrice | None:
    if region is not None:
        return host_price(instance_type, region)
    # Of equal ones a list price comes before an estimate, which differs by the rounding.
    return min(host_prices(instance_type), key=lambda each: round(each.usd_per_hour, 2), default=None)


def _regions(instance_type: str) -> tuple[str, ...]:
    """Where EC2 offers a type, or a price of it is known, which shows as much."""
    priced = {price.region for price in host_prices(instance_type)}
    offering = {each for each in regions_with_offers() if instance_type in (offered_types(each) or ())}
    return tuple(sorted(offering | priced))


_Place: TypeAlias = tuple[float, float, int, str]


def _by_hour(choice: HostChoice) -> _Place:
    """Of equal prices fewer hosts come first: what stays within a host needs no network."""
    hour, tflop = _last(choice.usd_per_hour, 4), _last(choice.usd_per_tflop_hour, 6)
    return hour, tflop, choice.hosts, choice.instance_type


def _by_tflop(choice: HostChoice) -> _Place:
    hour, tflop, hosts, name = _by_hour(choice)
    return tflop, hour, hosts, name


def _last(number: float | None, digits: int) -> float:
    return math.inf if number is None else round(number, digits)


_ORDERS: Final[dict[Order, Callable[[HostChoice], _Place]]] = {Order.HOUR: _by_hour, Order.TFLOP: _by_tflop}
