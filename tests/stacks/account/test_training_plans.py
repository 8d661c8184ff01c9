"""Training plans are held against the nodes that are to take them, before anything is synthesized."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from launcher.cluster.files import load_cluster_file
from stacks.account.deployed import NotCompared
from stacks.account.training_plans import unfit_plans

ACCOUNT = "123456789012"
ARN = f"arn:aws:sagemaker:us-west-2:{ACCOUNT}:training-plan/p5-in-may"
PLAN: dict[str, Any] = {
    "TrainingPlanArn": ARN,
    "TrainingPlanName": "p5-in-may",
    "Status": "Scheduled",
    "TargetResources": ["hyperpod-cluster"],
}
RESERVED: dict[str, Any] = {
    "ReservedCapacityArn": ARN.replace("training-plan", "reserved-capacity"),
    "InstanceType": "ml.p5.48xlarge",
    "TotalInstanceCount": 4,
    "Status": "Scheduled",
    "AvailabilityZone": "us-west-2b",
    "AvailabilityZoneId": "usw2-az2",
}

Told = Callable[..., list[str]]


@pytest.fixture
def told(tmp_path: Path) -> Told:
    """What is told of a plan, where AWS answers with it, or with an error of that code."""

    def ask(answer: dict[str, Any] | str, zone: str = "usw2-az2", **group: Any) -> list[str]:
        nodes = {"name": "h100", "instance_type": "ml.p5.48xlarge", "count": 4, "training_plan": ARN, **group}
        file = tmp_path / "team.yaml"
        file.write_text(
            yaml.safe_dump(
                {
                    "name": "team",
                    "region": "us-west-2",
                    "availability_zones": [zone],
                    "vpc": {"cidr": "10.0.0.0/16", "nat": True},
                    "hosts": [{"instance_type": "ml.g5.8xlarge", "count": 1}],
                    "lustre": {"deployment": "SCRATCH_2", "capacity_gib": 1200},
                    "hyperpod": {"groups": [nodes]},
                },
                sort_keys=False,
            )
        )
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        clients = {name: boto3.client(name, region_name="us-west-2", **keys) for name in ("sts", "sagemaker")}
        with Stubber(clients["sts"]) as sts, Stubber(clients["sagemaker"]) as sagemaker:
            if nodes["training_plan"] is not None:
                identity = {"Account": ACCOUNT, "Arn": f"arn:aws:iam::{ACCOUNT}:user/a", "UserId": "a"}
                sts.add_response("get_caller_identity", identity)
                if isinstance(answer, str):
                    sagemaker.add_client_error("describe_training_plan", answer, "so it is")
                else:
                    asked = {"TrainingPlanName": nodes["training_plan"]}
                    sagemaker.add_response("describe_training_plan", answer, asked)
            found = unfit_plans(load_cluster_file(file), file, ACCOUNT, lambda name, _: clients[name])
            sagemaker.assert_no_pending_responses()
            return found

    return ask


@pytest.mark.parametrize("zone", ["usw2-az2", "us-west-2b"])
def test_a_plan_that_fits_is_silent(zone: str, told: Told) -> None:
    assert told({**PLAN, "ReservedCapacitySummaries": [RESERVED]}, zone) == []


def test_a_plan_that_does_not_say_where_it_is_is_silent(told: Told) -> None:
    reserved = {name: value for name, value in RESERVED.items() if "Zone" not in name}
    assert told({**PLAN, "ReservedCapacitySummaries": [reserved]}) == []
    assert told(PLAN) == []


def test_nodes_on_demand_ask_nothing(told: Told) -> None:
    assert told("AccessDeniedException", training_plan=None) == []


@pytest.mark.parametrize(
    ("plan", "reserved", "group", "words"),
    [
        (
            {"Status": "Expired"},
            {},
            {},
            "p5-in-may is Expired: the nodes of h100 would never come",
        ),
        ({"TargetResources": ["training-job"]}, {}, {}, "is for training-job, not for HyperPod"),
        ({}, {"InstanceType": "ml.p5e.48xlarge"}, {}, "has ml.p5e.48xlarge, and h100 is of ml.p5.48xlarge"),
        ({}, {}, {"count": 5}, "has 4 hosts, and h100 wants 5"),
        (
            {},
            {"AvailabilityZone": "us-west-2c", "AvailabilityZoneId": "usw2-az3"},
            {},
            "has its hosts in us-west-2c, the file system is in usw2-az2",
        ),
    ],
    ids=["over", "for jobs", "of another type", "too small", "in another zone"],
)
def test_a_plan_that_does_not_fit_is_told_at_its_line(
    plan: dict[str, Any], reserved: dict[str, Any], group: dict[str, Any], words: str, told: Told
) -> None:
    (found,) = told({**PLAN, **plan, "ReservedCapacitySummaries": [{**RESERVED, **reserved}]}, **group)

    assert words in found
    assert "team.yaml:19:" in found


def test_a_plan_that_is_not_there_is_told(told: Told) -> None:
    (found,) = told("ResourceNotFound")

    assert f"there is no training plan {ARN}" in found


def test_what_may_not_be_asked_is_said_to_be_unseen(told: Told) -> None:
    with pytest.raises(NotCompared, match="whether the training plans fit was not looked at: AccessDenied"):
        told("AccessDeniedException")
