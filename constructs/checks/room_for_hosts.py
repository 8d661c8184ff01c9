"""EFA004: training subnets hold the hosts that are planned."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network

from constructs.checks.app import App, finding
from constructs.checks.subnets import Subnet

from launcher.cluster.network_specification import addresses_per_host
from launcher.failure_modes.model import Finding
from launcher.failure_modes.network import TOO_FEW_ADDRESSES

_RESERVED = 5
"""AWS keeps the first four addresses and the last of every subnet (VPC user guide, subnet-sizing)."""


def training_subnets_hold_the_planned_hosts(app: App) -> Iterator[Finding]:
    """Each training subnet has addresses for all the hosts that the author of the app plans for.

    A job runs in one zone and so in one subnet. Nothing is judged where no hosts are planned.
    """
    hosts = app.told.hosts
    needed = sum(count * addresses_per_host(instance_type) for instance_type, count in hosts.items())
    planned = ", ".join(f"{count} of {instance_type}" for instance_type, count in hosts.items())
    found: dict[str, Finding] = {}
    for placement in app.placements:
        small = [subnet for subnet in placement.subnets if _addresses(subnet) < needed]
        if placement.each or len(small) == len(placement.subnets):
            for subnet in small:
                room = f"{_addresses(subnet):.0f} addresses for hosts"
                what = f"{subnet.cidr} has {room}, but {planned} need {needed}"
                found[subnet.id] = finding(TOO_FEW_ADDRESSES, subnet.resource, what)
    yield from found.values()


def _addresses(subnet: Subnet) -> float:
    """How many addresses a subnet has for hosts; without end where its range is not known."""
    try:
        return ip_network(subnet.cidr or "").num_addresses - _RESERVED
    except ValueError:
        return float("inf")
