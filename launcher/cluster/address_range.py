"""A range of IPv4 addresses in the cluster file: of a VPC, or of a subnet in one."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator

from launcher.cluster.address_slots import LARGEST_NETWORK, SMALLEST_NETWORK
from launcher.cluster.section import refuse


def _has_a_size_that_exists(cidr: IPv4Network) -> IPv4Network:
    if not LARGEST_NETWORK <= cidr.prefixlen <= SMALLEST_NETWORK:
        refuse(
            f"VPCs and subnets are between /{LARGEST_NETWORK} and /{SMALLEST_NETWORK}, not /{cidr.prefixlen}",
            remedy="Use a private range such as 10.0.0.0/16.",
        )
    return cidr


AddressRange = Annotated[IPv4Network, AfterValidator(_has_a_size_that_exists)]
"""A range such as 10.0.0.0/16, of a size that a VPC and a subnet can have."""
