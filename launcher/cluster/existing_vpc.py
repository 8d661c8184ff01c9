"""A VPC of the cluster file that is there already, with subnets that are there or that are added to it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from launcher.cluster.address_range import AddressRange
from launcher.cluster.section import Section, refuse

MOST_SUBNETS = 16
"""SageMaker API reference, VpcConfig."""


class ExistingSubnet(Section):
    """A private subnet that is there already."""

    id: str = Field(pattern=r"^subnet-[0-9a-f]{8,17}$", description="Subnet id.")
    availability_zone: str = Field(description="Name of its zone, such as us-west-2a.")


class NewSubnets(Section):
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


class ExistingVpc(Section):
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
