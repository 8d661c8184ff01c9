"""Where an instance type is offered: the zones of a region."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.questions.ask import Answers
from launcher.account.questions.ask_capacity import QuotaQuestions, fetch_offering_zones
from launcher.failure_modes.model import AwsRefusal
from launcher.planning.request_view import RequestView
from launcher.session.account_checks import wanted_facts
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


P4D = "ml.p4d.24xlarge"
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/plan-1"


@pytest.mark.parametrize(
    ("resources", "spot", "quotas"),
    [
        pytest.param({}, False, {f"{P4D} for training job usage"}, id="on demand"),
        pytest.param({}, True, {f"{P4D} for spot training job usage"}, id="spot"),
        pytest.param(
            {"KeepAlivePeriodInSeconds": 600},
            False,
            {f"{P4D} for training job usage", f"{P4D} for training warm pool usage"},
            id="with hosts that are kept",
        ),
        pytest.param({"TrainingPlanArn": PLAN}, False, set(), id="the capacity of a training plan"),
    ],
)
def test_a_job_is_bound_by_the_quotas_of_its_hosts(
    resources: dict[str, Any], spot: bool, quotas: set[str]
) -> None:
    request = {
        "TrainingJobName": "digits-1",
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        "ResourceConfig": {"InstanceType": P4D, "InstanceCount": 2, **resources},
        "EnableManagedSpotTraining": spot,
    }
    asked = QuotaQuestions(wanted_facts(RequestView(request), "us-west-2")).questions(Answers({}))
    assert {each.what.removeprefix("the quota ") for each in asked if "quota" in each.what} == quotas
