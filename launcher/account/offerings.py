"""Where an instance type is to be had: the availability zones of a region that offer it."""

from __future__ import annotations

from typing import Any

from launcher.aws.errors import aws_errors


def fetch_offering_zones(ec2: Any, instance_type: str) -> frozenset[str]:
    """The zones that offer a SageMaker instance type; empty where EC2 offers it nowhere in the region.

    SageMaker's types are EC2's with `ml.` before them. Raises AwsRefusal where AWS refuses or cannot be
    reached.
    """
    with aws_errors(f"look where {instance_type} is offered (ec2:DescribeInstanceTypeOfferings)"):
        pages = ec2.get_paginator("describe_instance_type_offerings").paginate(
            LocationType="availability-zone",
            Filters=[{"Name": "instance-type", "Values": [instance_type.removeprefix("ml.")]}],
        )
        return frozenset(each["Location"] for page in pages for each in page["InstanceTypeOfferings"])
