"""Whether the network of a cluster file has the zones, and the room, for the hosts that are planned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from launcher.cluster.address_slots import (
    LARGEST_NETWORK,
    SPARE_ADDRESSES,
    AddressPlan,
    Misplaced,
    NoRoom,
    most_hosts_of,
    slot_for,
)
from launcher.cluster.network_specification import PlannedHosts, VpcSpec
from launcher.cluster.section import refuse
from launcher.cluster.training_network import RESERVED_ADDRESSES, addresses_per_host
from launcher.failure_modes import network
from launcher.failure_modes.model import Path

_GIB_PER_SERVER = 1200
"""No Lustre server has less storage than the smallest file system, so capacity / 1200 bounds the number
of the servers, each of which takes an address."""


def check_zones_of_network(vpc: VpcSpec, zones: Sequence[str], region: str | None) -> None:
    """Refuse zones where the subnets are there already, and new subnets without zones for them.

    Args:
        vpc: the network.
        zones: `availability_zones` of the cluster file.
        region: the cluster's region; None where it is wrong itself.
    """
    existing = vpc.existing
    added = existing.new_subnets if existing else None
    if (existing is None or added is not None) and not zones:
        refuse(
            f"{'a new VPC needs' if existing is None else 'new subnets need'} `availability_zones`, with at "
            "least one zone",
            remedy="Add `availability_zones: [us-west-2a]` or the like.",
        )
    if len(vpc.subnets) > len(zones) and (existing is None or added is not None):
        refuse(
            f"there are {len(vpc.subnets)} subnets for {len(zones)} zone(s)",
            remedy="Name one subnet for each of `availability_zones`, or fewer: the others get their slots.",
            below=("subnets", len(zones)),
        )
    if added is not None and len(added.route_table_ids) not in (0, 1, len(zones)):
        refuse(
            f"there are {len(added.route_table_ids)} route tables for {len(zones)} zones",
            remedy="Name one for all zones, or one for each.",
            below=("existing", "new_subnets", "route_table_ids"),
        )
    if existing is not None and existing.subnets and zones:
        refuse(
            "`availability_zones` are those of the existing subnets",
            remedy="Leave out `availability_zones`.",
            below=("existing",),
        )
    for position, subnet in enumerate(existing.subnets if existing and region else ()):
        if not re.fullmatch(rf"{region}[a-z]", subnet.availability_zone):
            refuse(
                f"{subnet.availability_zone!r} is not the name of a zone of {region}",
                remedy=f"Zones are called {region}a and so on.",
                below=("existing", "subnets", position, "availability_zone"),
            )


def check_room(
    vpc: VpcSpec, *, zones: int, max_hosts: int | None, hosts: Sequence[PlannedHosts], lustre_gib: int
) -> None:
    """Refuse subnets that do not fit into the network, or cannot hold the planned hosts.

    Subnets that are there already are judged by the live stage, which can see their addresses.

    Args:
        vpc: the network.
        zones: how many zones there are.
        max_hosts: `max_hosts` of the cluster file.
        hosts: all that run at the same time in one zone.
        lustre_gib: capacity of the file system, 0 without one.
    """
    plan = vpc.address_plan(zones, max_hosts)
    if plan is None:
        if max_hosts is not None:
            refuse(
                "`max_hosts` sizes new subnets, but those of `existing` are there already",
                remedy="Leave out `max_hosts`.",
                below=("existing",),
            )
        return
    needed = addresses_needed(hosts, lustre_gib)
    place: Path = ("cidr",) if vpc.existing is None else ("existing", "new_subnets", "cidr")
    has = f"{plan.network} has {plan.network.num_addresses} addresses, but"
    try:
        ranges = plan.by_zone()
    except Misplaced as error:
        refuse(
            str(error),
            remedy=f"Use ranges in {plan.network} that overlap neither one another nor a zone's slot.",
            below=("subnets", *error.path),
        )
        return
    except NoRoom as error:
        _refuse(f"{has} {error}", plan, needed, place)
        return
    planned = " and ".join(f"{each.count} hosts of {each.instance_type}" for each in hosts)
    for zone, each in enumerate(ranges):
        room = each.training.num_addresses
        if needed <= room:
            continue
        if zone < len(plan.given):
            refuse(
                f"{each.training} has {room} addresses, but {planned} need {needed}: their interfaces would "
                "not find an address",
                remedy=f"Use /{_prefix_of(needed)} or larger, or fewer hosts.",
                mode=network.TOO_FEW_ADDRESSES,
                below=("subnets", zone, "cidr"),
            )
        _refuse(
            f"{has} {planned} need {needed}, and the slot of zone {zone + 1}, {each.training}, has {room}: "
            "their interfaces would not find an address",
            plan,
            needed,
            place,
        )


def addresses_needed(hosts: Sequence[PlannedHosts], lustre_gib: int) -> int:
    """Addresses that a subnet needs for all the hosts, and for what else a cluster has there."""
    needed = sum(each.count * addresses_per_host(each.instance_type) for each in hosts)
    return needed + RESERVED_ADDRESSES + SPARE_ADDRESSES + lustre_gib // _GIB_PER_SERVER


def _refuse(problem: str, plan: AddressPlan, needed: int, place: Path) -> None:
    refuse(problem, remedy=_remedy(plan, needed), mode=network.TOO_FEW_ADDRESSES, below=place)


def _remedy(plan: AddressPlan, needed: int) -> str:
    """What would do: each remedy is tried before it is given."""
    remedies = [f"/{prefix} or larger" for prefix in _networks_that_do(plan, needed)]
    remedies += [f"`max_hosts: {hosts}`" for hosts in _maxima_that_do(plan, needed)]
    if not remedies:
        # Slots for a declared maximum that hold the hosts, in a larger network.
        for prefix in range(plan.network.prefixlen - 1, LARGEST_NETWORK - 1, -1):
            larger = replace(plan, network=plan.network.supernet(new_prefix=prefix))
            remedies = [f"/{prefix} or larger and `max_hosts: {k}`" for k in _maxima_that_do(larger, needed)]
            if remedies:
                break
    if not remedies:
        return f"No VPC is that large (/{LARGEST_NETWORK} is the largest): plan fewer hosts or zones."
    return f"Use {', or '.join(remedies)}."


def _networks_that_do(plan: AddressPlan, needed: int) -> Iterator[int]:
    """The prefix length of the smallest larger network in which everything fits, if there is one."""
    for prefix in range(plan.network.prefixlen - 1, LARGEST_NETWORK - 1, -1):
        if _does(replace(plan, network=plan.network.supernet(new_prefix=prefix)), needed):
            yield prefix
            return


def _maxima_that_do(plan: AddressPlan, needed: int) -> Iterator[int]:
    """The `max_hosts` with which everything fits that is nearest to what was asked for, if there is one."""
    sizes = [2**power for power in range(32 - LARGEST_NETWORK + 1) if 2**power >= needed]
    if plan.max_hosts is not None and slot_for(plan.max_hosts) >= needed:
        sizes.reverse()
    for size in sizes:
        hosts = most_hosts_of(size)
        if hosts is not None and _does(replace(plan, max_hosts=hosts), needed):
            yield hosts
            return


def _does(plan: AddressPlan, needed: int) -> bool:
    try:
        return all(each.training.num_addresses >= needed for each in plan.by_zone())
    except (NoRoom, Misplaced):
        return False


def _prefix_of(addresses: int) -> int:
    return 32 - (addresses - 1).bit_length()
