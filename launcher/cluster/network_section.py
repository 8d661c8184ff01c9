"""The network of a cluster file: the VPC, new or existing, its addresses, and room for the hosts that are
planned."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from typing import Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field, StringConstraints, field_validator, model_validator

from launcher.cluster.address_slots import (
    LARGEST_NETWORK,
    SMALLEST_NETWORK,
    SPARE_ADDRESSES,
    AddressPlan,
    Misplaced,
    NoRoom,
    ZoneAddresses,
    most_hosts_of,
    slot_for,
)
from launcher.cluster.instances import find_hint, instance_facts, nearest_instance_types
from launcher.cluster.traffic import RESERVED_ADDRESSES, addresses_per_host
from launcher.documents import FilePart, refuse
from launcher.failure_modes import network
from launcher.failure_modes.model import Path


def _has_a_size_that_exists(cidr: IPv4Network) -> IPv4Network:
    if not LARGEST_NETWORK <= cidr.prefixlen <= SMALLEST_NETWORK:
        refuse(
            f"VPCs and subnets are between /{LARGEST_NETWORK} and /{SMALLEST_NETWORK}, not /{cidr.prefixlen}",
            remedy="Use a private range such as 10.0.0.0/16.",
        )
    return cidr


AddressRange = Annotated[IPv4Network, AfterValidator(_has_a_size_that_exists)]
"""A range such as 10.0.0.0/16, of a size that a VPC and a subnet can have."""


MOST_SUBNETS = 16
"""SageMaker API reference, VpcConfig."""


class ExistingSubnet(FilePart):
    """A private subnet that is there already."""

    id: str = Field(pattern=r"^subnet-[0-9a-f]{8,17}$", description="Subnet id.")
    availability_zone: str = Field(description="Name of its zone, such as us-west-2a.")


class NewSubnets(FilePart):
    """Subnets that are added to the VPC, one in each of `availability_zones`, in slots of a free range.

    The way out is that of the VPC: its NAT gateway, or the route tables that are given.
    """

    cidr: AddressRange = Field(
        description="A range of the VPC in which no subnet lies yet, /16 to /28; it is divided into slots."
    )
    associate: bool = Field(
        default=False,
        description="Whether the range is not the VPC's yet: it is then added to the VPC. AWS says which "
        "ranges go together with the VPC's own (VPC user guide, add-cidr-block-restrictions).",
    )
    nat_gateway_id: str | None = Field(
        default=None,
        pattern=r"^nat-[0-9a-f]{8,17}$",
        description="A NAT gateway of the VPC. Each subnet gets a route table of its own that leads there.",
    )
    route_table_ids: list[Annotated[str, StringConstraints(pattern=r"^rtb-[0-9a-f]{8,17}$")]] = Field(
        default_factory=list,
        max_length=MOST_SUBNETS,
        description="Instead of a NAT gateway: route tables of the VPC, one for all zones or one for each, "
        "in their order. Their routes are left alone.",
    )
    s3_endpoint: bool = Field(
        default=True,
        description="With `nat_gateway_id`: a gateway endpoint to S3 for the new route tables, which costs "
        "nothing. `false` where the VPC's own endpoint is given these route tables; until it is, traffic "
        "with S3 goes through the NAT gateway and is paid for.",
    )

    @model_validator(mode="after")
    def _have_one_way_out(self) -> NewSubnets:
        if (self.nat_gateway_id is None) == (not self.route_table_ids):
            both = "are both given" if self.nat_gateway_id else "are both missing"
            refuse(
                f"`nat_gateway_id` and `route_table_ids` {both}; without one way out no job starts",
                remedy="Give the VPC's NAT gateway, to which new route tables lead, or its route tables.",
            )
        if self.route_table_ids and not self.s3_endpoint:
            refuse(
                "the endpoints of route tables that are there already are the VPC's own",
                remedy="Leave out `s3_endpoint`.",
                below=("s3_endpoint",),
            )
        return self

    def route_tables(self, zones: int) -> list[str]:
        """The given route table of each zone; none where the subnets get tables of their own."""
        return self.route_table_ids * zones if len(self.route_table_ids) == 1 else self.route_table_ids


class ExistingVpc(FilePart):
    """A VPC that is there already, with subnets from which S3, ECR and CloudWatch can be reached."""

    vpc_id: str = Field(pattern=r"^vpc-[0-9a-f]{8,17}$", description="VPC id.")
    subnets: list[ExistingSubnet] = Field(
        default_factory=list,
        max_length=MOST_SUBNETS,
        description="Private subnets that are there already, one per zone.",
    )
    new_subnets: NewSubnets | None = Field(
        default=None, description="Instead: subnets that are added to the VPC."
    )
    security_group_id: str | None = Field(
        default=None,
        pattern=r"^sg-[0-9a-f]{8,17}$",
        description="A group for the hosts that is there already. It needs all "
        "traffic from and to itself and a way out; only ingress from the file system is added. When left "
        "out, a group is created.",
    )

    @field_validator("subnets")
    @classmethod
    def _are_in_different_zones(cls, subnets: list[ExistingSubnet]) -> list[ExistingSubnet]:
        zones = [subnet.availability_zone for subnet in subnets]
        for position, zone in enumerate(zones):
            if zone in zones[:position]:
                refuse(
                    f"there are two subnets in {zone}; a job could be spread over both",
                    remedy="Name one subnet per zone.",
                    below=(position, "availability_zone"),
                )
        return subnets

    @model_validator(mode="after")
    def _has_subnets(self) -> ExistingVpc:
        if bool(self.subnets) == (self.new_subnets is not None):
            both = "are both given" if self.subnets else "are both missing"
            refuse(
                f"`subnets` and `new_subnets` {both}",
                remedy="Give `subnets` with the ids of those that are there, or `new_subnets` with a range.",
            )
        return self


_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""RFC 1918, and RFC 6598 for those who have run out of it (VPC user guide, vpc-cidr-blocks)."""


class SubnetAddresses(FilePart):
    """The addresses of one zone's subnets, by hand."""

    cidr: AddressRange = Field(description="Range of the training subnet, /16 to /28.")
    nat_cidr: AddressRange | None = Field(
        default=None, description="Range of the NAT gateway's subnet; its slot when left out."
    )


class VpcSpec(FilePart):
    """The network that training jobs run in: a new one with a CIDR, or an existing one by its ids."""

    cidr: AddressRange | None = Field(
        default=None,
        description="Private IPv4 range of a new VPC, /16 to /28. It is divided into [slots](#addresses), "
        "which stay where they are when the cluster grows.",
    )
    nat: bool | Literal["per-zone"] = Field(
        default=True,
        description="A NAT gateway as the way out, in the first zone; `per-zone` puts one into each, so that "
        "no zone depends on another or pays for traffic between them. Without it, interface endpoints to the "
        "services that a training job calls, and no way to anything else (no pip install from PyPI).",
    )
    s3_prefix_list_id: Annotated[str, StringConstraints(pattern=r"^pl-[0-9a-f]{8,17}$")] | None = Field(
        default=None,
        description="Without NAT: the id of the region's com.amazonaws.REGION.s3 prefix list (aws ec2 "
        "describe-managed-prefix-lists), to which HTTPS is then confined. When left out, HTTPS may go to "
        "any address, of which the routes reach only S3 and the endpoints.",
    )
    subnets: list[SubnetAddresses] = Field(
        default_factory=list,
        max_length=MOST_SUBNETS,
        description="Addresses by hand, an entry for each zone in the order of `availability_zones`; zones "
        "without one get their slots. For a network that is to keep the addresses that it has.",
    )
    existing: ExistingVpc | None = Field(default=None, description="Instead of a new VPC.")

    @field_validator("cidr")
    @classmethod
    def _is_private(cls, cidr: IPv4Network | None) -> IPv4Network | None:
        if cidr is not None and not any(cidr.subnet_of(private) for private in _PRIVATE):
            refuse(
                f"{cidr} is not private: hosts would look for its addresses inside the VPC and never reach "
                "those that really have them",
                remedy=f"Use a range of {', '.join(map(str, _PRIVATE))}.",
            )
        return cidr

    @field_validator("nat", mode="before")
    @classmethod
    def _is_a_number_of_gateways(cls, nat: Any) -> Any:
        if isinstance(nat, str) and nat not in ("true", "false", "per-zone"):
            refuse(
                f"{nat!r} is neither true nor false nor per-zone",
                remedy="Use `true` for one NAT gateway, `per-zone` for one in each zone, `false` for none.",
            )
        return nat

    @model_validator(mode="after")
    def _is_new_or_existing(self) -> VpcSpec:
        if (self.cidr is None) == (self.existing is None):
            both = "are both given" if self.cidr else "are both missing"
            refuse(
                f"`cidr` and `existing` {both}",
                remedy="Give `cidr` for a new VPC, or `existing` with the ids of one that is there.",
            )
        if self.existing is not None and self.nat is not True:
            refuse(
                "the way out of an existing VPC is its own",
                remedy="Leave out `nat`.",
                below=("nat",),
            )
        if self.subnets and self.existing is not None and self.existing.new_subnets is None:
            refuse(
                "the subnets of `existing` have their addresses",
                remedy="Leave out `subnets`.",
                below=("subnets",),
            )
        for position, subnet in enumerate(self.subnets):
            if subnet.nat_cidr is not None and (not self.nat or self.existing is not None):
                refuse(
                    "no NAT gateway is created, so there is no subnet for one",
                    remedy="Leave out `nat_cidr`.",
                    below=("subnets", position, "nat_cidr"),
                )
        if self.s3_prefix_list_id is not None and (self.nat or self.existing is not None):
            refuse(
                "with a way out to any address, HTTPS is not confined to S3",
                remedy="Leave it out, or set `nat: false`.",
                below=("s3_prefix_list_id",),
            )
        return self

    @property
    def divided_range(self) -> IPv4Network | None:
        """The range that new subnets are laid out in; None where all subnets are there already."""
        if self.existing is None:
            return self.cidr
        return self.existing.new_subnets.cidr if self.existing.new_subnets else None

    def address_plan(self, zones: int, max_hosts: int | None) -> AddressPlan | None:
        """How the new subnets are laid out in so many zones; None where there are none."""
        if self.divided_range is None:
            return None
        return AddressPlan(
            self.divided_range,
            zones=zones,
            nat=bool(self.nat) and self.existing is None,
            max_hosts=max_hosts,
            given=tuple(ZoneAddresses(each.cidr, each.nat_cidr) for each in self.subnets),
        )

    @property
    def isolated(self) -> bool:
        """Whether the hosts reach AWS through endpoints only, and nothing else at all."""
        return self.existing is None and not self.nat


class PlannedHosts(FilePart):
    """Hosts of one type that are to fit into a zone; the subnets are checked for their addresses."""

    instance_type: str = Field(description="SageMaker training instance type, such as ml.p5.48xlarge.")
    count: int = Field(ge=1, description="Hosts of that type that run at the same time in one zone.")

    @field_validator("instance_type")
    @classmethod
    def _is_known(cls, instance_type: str) -> str:
        if instance_facts(instance_type) is None:
            nearest = nearest_instance_types(instance_type)
            refuse(
                f"{instance_type!r} is not a training instance type, so what addresses it takes is unknown",
                remedy=(
                    f"The nearest are {', '.join(nearest)}.{find_hint(nearest[0])}"
                    if nearest
                    else f"Use one such as ml.p5.48xlarge.{find_hint(instance_type)}"
                ),
            )
        return instance_type


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


class SomeHosts(Protocol):
    """So many hosts, or nodes, of one type."""

    @property
    def instance_type(self) -> str:
        """Such as ml.p5.48xlarge."""

    @property
    def count(self) -> int:
        """How many."""


def check_room(
    vpc: VpcSpec, *, zones: int, max_hosts: int | None, hosts: Sequence[SomeHosts], lustre_gib: int
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
                remedy=f"Use /{32 - (needed - 1).bit_length()} or larger, or fewer hosts.",
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


def addresses_needed(hosts: Sequence[SomeHosts], lustre_gib: int) -> int:
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
