"""Where an instance type is offered: the zones of a region."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.questions.instances import fetch_offering_zones
from launcher.failure_modes.refusal import AwsRefusal
from tests.emulator.faults import DENIED, inject

ASKED = {
    "LocationType": "availability-zone",
    "Filters": [{"Name": "instance-type", "Values": ["p4d.24xlarge"]}],
}


def client() -> Any:
    return boto3.client(
        "ec2", region_name="us-west-2", aws_access_key_id="testing", aws_secret_access_key="testing"
    )


def offered(*zones: str, **more: str) -> dict[str, Any]:
    return {"InstanceTypeOfferings": [{"InstanceType": "p4d.24xlarge", "Location": z} for z in zones], **more}


def test_zones_of_every_page_are_read_under_the_name_of_ec2() -> None:
    with Stubber(ec2 := client()) as stubbed:
        operation = "describe_instance_type_offerings"
        stubbed.add_response(operation, offered("us-west-2a", NextToken="more"), ASKED)
        stubbed.add_response(operation, offered("us-west-2c"), {**ASKED, "NextToken": "more"})

        assert fetch_offering_zones(ec2, "ml.p4d.24xlarge") == {"us-west-2a", "us-west-2c"}


def test_a_type_that_is_offered_nowhere_has_no_zones() -> None:
    with Stubber(ec2 := client()) as stubbed:
        stubbed.add_response("describe_instance_type_offerings", offered(), ASKED)

        assert fetch_offering_zones(ec2, "ml.p4d.24xlarge") == frozenset()


def test_refusal_names_the_permission() -> None:
    with mock_aws(), pytest.raises(AwsRefusal, match="ec2:DescribeInstanceTypeOfferings"):
        inject(ec2 := client(), "DescribeInstanceTypeOfferings", DENIED)
        fetch_offering_zones(ec2, "ml.p4d.24xlarge")
