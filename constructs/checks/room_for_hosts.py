"""EFA004: training subnets hold the hosts that are planned."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from constructs.checks.app import App, finding
from constructs.checks.subnets import TemplateSubnet

from launcher.cluster.traffic import RESERVED_ADDRESSES, addresses_per_host
from launcher.failure_modes import network
from launcher.failure_modes.model import Finding


def training_subnets_hold_the_planned_hosts(app: App) -> Iterator[Finding]:
    """Each training subnet has addresses for all the hosts that the author of the app plans for.

    A job runs in one zone and so in one subnet. Nothing is judged where no hosts are planned.
    """
    hosts = app.declared.hosts
    needed = sum(count * addresses_per_host(instance_type) for instance_type, count in hosts.items())
    planned = ", ".join(f"{count} of {instance_type}" for instance_type, count in hosts.items())
    found: dict[str, Finding] = {}
    for placement in app.placements:
        small = [subnet for subnet in placement.subnets if _addresses(subnet) < needed]
        if placement.each or len(small) == len(placement.subnets):
            for subnet in small:
                room = f"{_addresses(subnet):.0f} addresses for hosts"
                what = f"{subnet.cidr} has {room}, but {planned} need {needed}"
                found[subnet.id] = finding(network.TOO_FEW_ADDRESSES, subnet.id, what)
    yield from found.values()


def _addresses(subnet: TemplateSubnet) -> float:
    """How many addresses a subnet has for hosts; without end where its range is not known."""
    if subnet.cidr is None:
        return float("inf")
    return IPv4Network(subnet.cidr).num_addresses - RESERVED_ADDRESSES
