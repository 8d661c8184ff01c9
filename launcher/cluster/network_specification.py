"""The network of a cluster file: zones, the VPC, the hosts planned for it, and the sizes that follow."""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from launcher.cluster.instances import instance_facts, nearest_instance_types
from launcher.cluster.section import Section, refuse
from launcher.cluster.training_network import RESERVED_ADDRESSES, addresses_per_host
from launcher.failure_modes import network

NAT_PREFIX_LENGTH = 28
"""The subnet of the NAT gateway needs one address, and /28 is the smallest subnet of a VPC."""

MOST_SUBNETS = 16
"""SageMaker API reference, VpcConfig."""

_SPARE_ADDRESSES = 32
"""Room beside the hosts for the interfaces of the endpoints and of a small file system."""

_GIB_PER_SERVER = 1200
"""No Lustre server has less storage than the smallest file system, so capacity / 1200 bounds the number
of the servers, each of which takes an address."""

_SMALLEST_VPC, _LARGEST_VPC = 28, 16

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""RFC 1918, and RFC 6598 for those who have run out of it (VPC user guide, vpc-cidr-blocks)."""

_DIRECTIONS = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c"}


class ExistingSubnet(Section):
    """A private subnet that is there already."""

    id: str = Field(pattern=r"^subnet-[0-9a-f]{8,17}$", description="Subnet id.")
    availability_zone: str = Field(description="Name of its zone, such as us-west-2a.")


class ExistingVpc(Section):
    """A VPC that is there already, with subnets from which S3, ECR and CloudWatch can be reached."""

    vpc_id: str = Field(pattern=r"^vpc-[0-9a-f]{8,17}$", description="VPC id.")
    subnets: list[ExistingSubnet] = Field(
        min_length=1, max_length=MOST_SUBNETS, description="Private subnets, one per zone."
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


class VpcSpec(Section):
    """The network that training jobs run in: a new one with a CIDR, or an existing one by its ids."""

    cidr: IPv4Network | None = Field(default=None, description="Private IPv4 range of a new VPC, /16 to /28.")
    nat: bool = Field(
        default=True,
        description="A NAT gateway as the way out. Without it, interface endpoints to the services "
        "that a training job calls, and no way to anything else (no pip install from PyPI).",
    )
    s3_prefix_list_id: Annotated[str, StringConstraints(pattern=r"^pl-[0-9a-f]{8,17}$")] | None = Field(
        default=None,
        description="Without NAT: the id of the region's com.amazonaws.REGION.s3 prefix list (aws ec2 "
        "describe-managed-prefix-lists), to which HTTPS is then confined. When left out, HTTPS may go to "
        "any address, of which the routes reach only S3 and the endpoints.",
    )
    existing: ExistingVpc | None = Field(default=None, description="Instead of a new VPC.")

    @field_validator("cidr")
    @classmethod
    def _is_a_size_of_a_vpc(cls, cidr: IPv4Network | None) -> IPv4Network | None:
        if cidr is not None and not _LARGEST_VPC <= cidr.prefixlen <= _SMALLEST_VPC:
            refuse(
                f"a VPC is between /{_LARGEST_VPC} and /{_SMALLEST_VPC}, not /{cidr.prefixlen}",
                remedy="Use a private range such as 10.0.0.0/16.",
            )
        if cidr is not None and not any(cidr.subnet_of(private) for private in _PRIVATE):
            refuse(
                f"{cidr} is not private: hosts would look for its addresses inside the VPC and never reach "
                "those that really have them",
                remedy=f"Use a range of {', '.join(map(str, _PRIVATE))}.",
            )
        return cidr

    @model_validator(mode="after")
    def _is_new_or_existing(self) -> VpcSpec:
        if (self.cidr is None) == (self.existing is None):
            both = "are both given" if self.cidr else "are both missing"
            refuse(
                f"`cidr` and `existing` {both}",
                remedy="Give `cidr` for a new VPC, or `existing` with the ids of one that is there.",
            )
        if self.existing is not None and not self.nat:
            refuse(
                "the way out of an existing VPC is its own",
                remedy="Leave out `nat`.",
                below=("nat",),
            )
        if self.s3_prefix_list_id is not None and (self.nat or self.existing is not None):
            refuse(
                "with a way out to any address, HTTPS is not confined to S3",
                remedy="Leave it out, or set `nat: false`.",
                below=("s3_prefix_list_id",),
            )
        return self

    @property
    def isolated(self) -> bool:
        """Whether the hosts reach AWS through endpoints only, and nothing else at all."""
        return self.existing is None and not self.nat


class PlannedHosts(Section):
    """Hosts of one type that are to fit into a zone; the subnets are sized for them."""

    instance_type: str = Field(description="SageMaker training instance type, such as ml.p5.48xlarge.")
    count: int = Field(ge=1, description="Hosts of that type that run at the same time in one zone.")

    @field_validator("instance_type")
    @classmethod
    def _is_known(cls, instance_type: str) -> str:
        if instance_facts(instance_type) is None:
            nearest = nearest_instance_types(instance_type)
            refuse(
                f"{instance_type!r} is not a training instance type, so the subnets cannot be sized for it",
                remedy=f"The nearest are {', '.join(nearest)}."
                if nearest
                else "Use one such as ml.p5.48xlarge.",
            )
        return instance_type


def check_zones(zones: Sequence[str], region: str) -> None:
    """Refuse zones that are not all names, or all ids, of different zones of the region."""
    name = re.compile(rf"{re.escape(region)}[a-z]")
    # The ids of the sovereign cloud's zones are not published.
    prefix = zone_id_prefix(region) if not region.startswith("eusc-") else "[a-z0-9]+"
    identifier = re.compile(rf"{prefix}-az[0-9]+")
    ids = f", their ids {prefix}-az1" if prefix.isalnum() else ""
    remedy = f"Zones of {region} are called {region}a{ids}, and so on."
    for position, zone in enumerate(zones):
        if not (name.fullmatch(zone) or identifier.fullmatch(zone)):
            refuse(f"{zone!r} is not a zone of {region}", remedy=remedy)
        if zone in zones[:position]:
            refuse(f"{zone!r} is there twice", remedy="A zone has one subnet: name each once.")
    if len({bool(name.fullmatch(zone)) for zone in zones}) > 1:
        refuse(
            "names and ids are mixed, so two of them may be the same zone",
            remedy="Which name goes with which id differs by account: use one kind only.",
        )


def is_zone_id(zone: str) -> bool:
    """Whether a zone is given by its id, such as usw2-az1, and not by its name."""
    return "-az" in zone


def zone_id_prefix(region: str) -> str:
    """The first part of a region's zone ids: `usw2` of us-west-2, `apse1` of ap-southeast-1."""
    area, *words, number = region.split("-")
    for word, letter in _DIRECTIONS.items():
        words = [part.replace(word, letter) for part in words]
    return area + "".join("g" if part == "gov" else part for part in words) + number


def check_size(
    cidr: IPv4Network, *, nat: bool, zones: int, hosts: Sequence[PlannedHosts], lustre_gib: int
) -> None:
    """Refuse a VPC whose subnets cannot hold the planned hosts."""
    needed = zones * 2 ** (32 - subnet_prefix_length(hosts, lustre_gib))
    if nat:
        needed += zones * 2 ** (32 - NAT_PREFIX_LENGTH)
    if needed <= cidr.num_addresses:
        return
    planned = " and ".join(f"{each.count} hosts of {each.instance_type}" for each in hosts)
    refuse(
        f"{cidr} has {cidr.num_addresses} addresses, but {planned} in {zones} zone(s) need {needed}: "
        "their interfaces would not find an address",
        remedy=f"Use /{32 - (needed - 1).bit_length()} or larger."
        if needed <= 2 ** (32 - _LARGEST_VPC)
        else f"No VPC is that large (/{_LARGEST_VPC} is the largest): plan fewer hosts or zones.",
        mode=network.TOO_FEW_ADDRESSES,
        below=("cidr",),
    )


def subnet_prefix_length(hosts: Sequence[PlannedHosts], lustre_gib: int = 0) -> int:
    """The smallest subnet in which all the hosts, and what else a cluster has there, find an address."""
    needed = sum(each.count * addresses_per_host(each.instance_type) for each in hosts)
    needed += RESERVED_ADDRESSES + _SPARE_ADDRESSES + lustre_gib // _GIB_PER_SERVER
    return 32 - (needed - 1).bit_length()
