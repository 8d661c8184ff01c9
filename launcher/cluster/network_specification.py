"""The network of a cluster file: the VPC, its addresses, and the hosts that are planned for it."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from launcher.cluster.address_range import AddressRange
from launcher.cluster.address_slots import AddressPlan, ZoneAddresses
from launcher.cluster.existing_vpc import MOST_SUBNETS, ExistingVpc
from launcher.cluster.instances import instance_facts, nearest_instance_types
from launcher.cluster.section import Section, refuse

_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")))
"""RFC 1918, and RFC 6598 for those who have run out of it (VPC user guide, vpc-cidr-blocks)."""


class SubnetAddresses(Section):
    """The addresses of one zone's subnets, by hand."""

    cidr: AddressRange = Field(description="Range of the training subnet, /16 to /28.")
    nat_cidr: AddressRange | None = Field(
        default=None, description="Range of the NAT gateway's subnet; its slot when left out."
    )


class VpcSpec(Section):
    """The network that training jobs run in: a new one with a CIDR, or an existing one by its ids."""

    cidr: AddressRange | None = Field(
        default=None,
        description="Private IPv4 range of a new VPC, /16 to /28. It is divided into [slots](#addresses), "
        "which stay where they are when the cluster grows.",
    )
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
            nat=self.nat and self.existing is None,
            max_hosts=max_hosts,
            given=tuple(ZoneAddresses(each.cidr, each.nat_cidr) for each in self.subnets),
        )

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
