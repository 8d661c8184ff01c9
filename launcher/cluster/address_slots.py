"""Where the subnets of a network lie: in slots that never move.

A subnet keeps its range for life: CloudFormation can only replace it, and with it the NAT gateway, the
file system and whatever else stands in it. So a slot depends on nothing that changes while a cluster
grows, but on the network's own range, the position of the zone in the cluster file, and the declared
maximum of hosts. What is planned today is checked against a slot and never moves it.

Training subnets lie from the low end, those of NAT gateways from the high end, so that a zone which is
appended finds its place between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Network
from itertools import combinations
from typing import Final, Literal

from launcher.cluster.traffic import RESERVED_ADDRESSES
from launcher.failure_modes.model import Path
from launcher.frozen import frozen

LARGEST_NETWORK, SMALLEST_NETWORK = 16, 28
"""Prefix lengths: a VPC, a further range of one and a subnet are /16 at most and /28 at least (VPC user
guide, vpc-cidr-blocks and subnet-sizing)."""

MOST_ADDRESSES_OF_A_HOST: Final = 32
"""What a host of ml.p5.48xlarge or ml.p5e.48xlarge takes, one for each of its 32 EFA interfaces: no
training instance type takes more (`instances.json`, by `addresses_per_host`)."""

SPARE_ADDRESSES: Final = 32
"""Room in every subnet beside the hosts, for the interfaces of the service endpoints and of what else an
account puts there."""

_LUSTRE_ADDRESSES: Final = 128
"""Room for Lustre servers in the slots of a declared maximum: a file system of 150 TiB at the least, as no
server has less than 1200 GiB. A larger one is checked as the hosts are."""

MOST_HOSTS: Final = 2042
"""The largest `max_hosts` for which the largest network holds one slot."""

_NAT_ADDRESSES: Final = 16
"""The subnet of a NAT gateway needs one address; it gets the smallest subnet that there is."""


class NoRoom(ValueError):
    """The slots do not fit into the network; the message says which does not."""


class Misplaced(ValueError):
    """A range that was given by hand lies outside of the network or over another.

    Attributes:
        path: the position among the given ones, and the name of the field.
    """

    def __init__(self, problem: str, path: Path) -> None:
        """Say what is wrong, and where."""
        super().__init__(problem)
        self.path = path


@frozen
class ZoneAddresses:
    """The ranges of one zone's subnets; `nat` is None where there is none, or where its slot is meant."""

    training: IPv4Network
    nat: IPv4Network | None = None


@frozen
class AddressPlan:
    """How a network is divided among zones.

    Without `max_hosts` the first two zones get a quarter of the network each, the next two an eighth,
    the next two a sixteenth, and so on. With it every zone gets a slot for so many hosts of any type.

    Attributes:
        network: the range that is divided.
        zones: how many zones there are.
        nat: whether each zone has a subnet for a NAT gateway, too.
        max_hosts: the hosts that one zone is to hold at most, or None.
        given: ranges by hand for the first zones, not more than there are; the others get their slots.
    """

    network: IPv4Network
    zones: int
    nat: bool
    max_hosts: int | None = None
    given: tuple[ZoneAddresses, ...] = ()

    def by_zone(self) -> list[ZoneAddresses]:
        """The ranges of every zone's subnets, in the order of the zones.

        Raises:
            NoRoom: a slot would be smaller than a subnet can be, lie beyond the network, or over another.
            Misplaced: what was given lies outside of the network, or over something else.
        """
        trainings = [self._training(zone) for zone in range(self.zones)]
        nats = [self._nat(zone) for zone in range(self.zones)] if self.nat else []
        _check_places(self.network, [*trainings, *nats])
        if not nats:
            return [ZoneAddresses(each.range) for each in trainings]
        return [ZoneAddresses(one.range, other.range) for one, other in zip(trainings, nats, strict=True)]

    def _training(self, zone: int) -> _Placed:
        if zone < len(self.given):
            return _Placed("training", zone, self.given[zone].training, by_hand=True)
        return _Placed("training", zone, _training_slot(self, zone))

    def _nat(self, zone: int) -> _Placed:
        chosen = self.given[zone].nat if zone < len(self.given) else None
        return _Placed("NAT", zone, chosen or _nat_slot(self.network, zone), by_hand=chosen is not None)


def slot_for(max_hosts: int) -> int:
    """Addresses of the slot for so many hosts of any type: a power of two."""
    needed = max_hosts * MOST_ADDRESSES_OF_A_HOST + RESERVED_ADDRESSES + SPARE_ADDRESSES + _LUSTRE_ADDRESSES
    return 1 << (needed - 1).bit_length()


def most_hosts_of(slot: int) -> int | None:
    """The largest `max_hosts` whose slot has so many addresses (a power of two); None where none has."""
    room = slot - RESERVED_ADDRESSES - SPARE_ADDRESSES - _LUSTRE_ADDRESSES
    hosts = room // MOST_ADDRESSES_OF_A_HOST
    return hosts if hosts >= 1 else None


@frozen
class _Placed:
    kind: Literal["training", "NAT"]
    zone: int
    range: IPv4Network
    by_hand: bool = False

    @property
    def path(self) -> Path:
        return (self.zone, "cidr" if self.kind == "training" else "nat_cidr")

    def __str__(self) -> str:
        return f"{self.range} (zone {self.zone + 1}, {self.kind})"


def _training_slot(plan: AddressPlan, zone: int) -> IPv4Network:
    whole = plan.network.num_addresses
    if plan.max_hosts is not None:
        size = slot_for(plan.max_hosts)
        start = zone * size
    else:
        # All pairs of zones before this one have 1/2 + 1/4 + ... of the network together.
        pair, second = divmod(zone, 2)
        size = whole >> (pair + 2)
        start = whole - (whole >> pair) + second * size
    if size < 2 ** (32 - SMALLEST_NETWORK):
        raise NoRoom(
            f"the slot of zone {zone + 1} would be smaller than a subnet can be, /{SMALLEST_NETWORK}"
        )
    if start + size > whole:
        raise NoRoom(f"slots of {size} for {plan.zones} zone(s) need {plan.zones * size}")
    return _part(plan.network, start, size)


def _nat_slot(network: IPv4Network, zone: int) -> IPv4Network:
    start = network.num_addresses - (zone + 1) * _NAT_ADDRESSES
    if start < 0:
        raise NoRoom(f"{zone + 1} NAT subnets need {(zone + 1) * _NAT_ADDRESSES} addresses")
    return _part(network, start, _NAT_ADDRESSES)


def _part(network: IPv4Network, start: int, size: int) -> IPv4Network:
    return IPv4Network((network.network_address + start, 33 - size.bit_length()))


def _check_places(network: IPv4Network, placed: Sequence[_Placed]) -> None:
    for each in placed:
        if each.by_hand and not each.range.subnet_of(network):
            raise Misplaced(f"{each.range} does not lie in {network}", each.path)
    for one, other in combinations(placed, 2):
        if not one.range.overlaps(other.range):
            continue
        if other.by_hand:
            raise Misplaced(f"{other} overlaps with {one}", other.path)
        if one.by_hand:
            raise Misplaced(f"{one} overlaps with {other}", one.path)
        raise NoRoom(f"{one} and {other} would overlap")
