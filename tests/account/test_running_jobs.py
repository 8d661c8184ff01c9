"""Training jobs that have not ended: what is told of each, over all pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from launcher.account.questions.running_jobs import fetch_running_jobs
from launcher.account.running_jobs import RunningJob, parse_running_job
from launcher.failure_modes.refusal import AwsRefusal
from tests.emulator.faults import DENIED, inject
from tests.emulator.running_jobs import emulated_search

NAMES = [f"job-{number}" for number in range(5)]


@pytest.fixture
def jobs() -> list[dict[str, Any]]:
    return [{"TrainingJobName": name, "TrainingJobStatus": "InProgress"} for name in NAMES]


@pytest.fixture
def sagemaker(jobs: list[dict[str, Any]]) -> Iterator[Any]:
    with mock_aws(), emulated_search(jobs):
        yield boto3.client("sagemaker", region_name="us-west-2")


def test_jobs_of_every_page_are_read(sagemaker: Any) -> None:
    assert [each.name for each in fetch_running_jobs(sagemaker)] == NAMES


@pytest.mark.parametrize(
    ("status", "runs"),
    [("InProgress", True), ("Stopping", True), ("Completed", False), ("Failed", False), ("Stopped", False)],
)
def test_jobs_that_stop_still_hold_their_hosts(
    sagemaker: Any, jobs: list[dict[str, Any]], status: str, runs: bool
) -> None:
    jobs[:] = [{"TrainingJobName": "other", "TrainingJobStatus": status}]

    assert [each.status for each in fetch_running_jobs(sagemaker)] == [status] * runs


def test_refusal_names_the_permission(sagemaker: Any) -> None:
    inject(sagemaker, "Search", DENIED)

    with pytest.raises(AwsRefusal, match="sagemaker:Search"):
        fetch_running_jobs(sagemaker)


def test_everything_that_is_described_is_read() -> None:
    described = {
        "TrainingJobName": "other",
        "TrainingJobStatus": "Stopping",
        "ResourceConfig": {
            "InstanceType": "ml.p4d.24xlarge",
            "InstanceCount": 4,
            "KeepAlivePeriodInSeconds": 600,
        },
        "CheckpointConfig": {"S3Uri": "s3://checkpoints/other"},
        "EnableManagedSpotTraining": True,
        "RoleArn": "arn:aws:iam::111122223333:role/training",
        "VpcConfig": {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]},
        "Tags": [{"Key": "team", "Value": "x"}, {"Key": "slipway:cluster", "Value": "dev"}],
    }

    assert parse_running_job(described) == RunningJob(
        "other",
        "Stopping",
        "s3://checkpoints/other",
        "ml.p4d.24xlarge",
        4,
        spot=True,
        keeps_hosts=True,
        role_arn="arn:aws:iam::111122223333:role/training",
        subnet_ids=("subnet-1", "subnet-2"),
        cluster="dev",
    )


def test_a_job_of_several_instance_groups_names_no_type() -> None:
    found = parse_running_job({"TrainingJobName": "other", "ResourceConfig": {"InstanceGroups": [{}, {}]}})

    assert (found.instance_type, found.hosts, found.checkpoints) == (None, 0, None)
    assert not found.keeps_hosts


def test_a_job_whose_type_the_service_chose_holds_hosts_of_that_type() -> None:
    resources = {"InstancePreferences": [{"InstanceType": "ml.p5.48xlarge"}], "InstanceCount": 2}
    waiting = parse_running_job({"TrainingJobName": "other", "ResourceConfig": resources})
    resources["SelectedInstanceType"] = "ml.p5e.48xlarge"
    started = parse_running_job({"TrainingJobName": "other", "ResourceConfig": resources})
    assert (waiting.instance_type, started.instance_type) == (None, "ml.p5e.48xlarge")
    assert started.hosts == 2


def test_checkpoints_that_the_container_copies_are_read_from_its_environment() -> None:
    described = {"TrainingJobName": "a", "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://team/runs/a"}}
    assert parse_running_job(described).checkpoints == "s3://team/runs/a"
