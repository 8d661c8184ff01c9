"""Images in ECR: what their URIs say, and whether the registry has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import resources
from typing import Any, get_args

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.facts import (
    Image,
    RunningJob,
    Use,
    known_code,
    parse_running_job,
    quota_name,
)
from launcher.account.questions.ask_capacity import fetch_image, fetch_running_jobs
from launcher.cluster.instances import instance_facts, training_instance_types
from launcher.failure_modes.model import AwsRefusal
from launcher.text.values import parse_image_uri
from tests.emulator.faults import DENIED, inject
from tests.emulator.running_jobs import emulated_search

REGISTRY = "763104351884.dkr.ecr.us-west-2.amazonaws.com"
DIGEST = "sha256:" + "0" * 64
OWN: Any = parse_image_uri(f"{REGISTRY}/own:1")


@pytest.fixture
def ecr() -> Any:
    return boto3.client("ecr", "us-west-2", aws_access_key_id="x", aws_secret_access_key="x")


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        (f"{REGISTRY}/pytorch-training:2.8", ("us-west-2", "pytorch-training", "2.8", None)),
        (f"{REGISTRY}/team/own", ("us-west-2", "team/own", "latest", None)),
        (f"{REGISTRY}/own@{DIGEST}", ("us-west-2", "own", None, DIGEST)),
        (f"{REGISTRY}/own:1@{DIGEST}", ("us-west-2", "own", "1", DIGEST)),
        ("763104351884.dkr.ecr.cn-north-1.amazonaws.com.cn/own:1", ("cn-north-1", "own", "1", None)),
        ("763104351884.dkr-ecr.eu-west-1.on.aws/own:1", ("eu-west-1", "own", "1", None)),
        ("763104351884.dkr.ecr-fips.us-east-1.amazonaws.com/own:1", ("us-east-1", "own", "1", None)),
    ],
)
def test_uri_of_ecr_is_read(uri: str, parts: tuple[str | None, ...]) -> None:
    found = parse_image_uri(uri)

    assert found is not None
    assert (found.region, found.repository, found.tag, found.digest) == parts
    assert found.account == "763104351884"


@pytest.mark.parametrize("uri", ["pytorch/pytorch:2.8", "public.ecr.aws/team/own:1", "ghcr.io/team/own"])
def test_image_of_another_registry_is_none(uri: str) -> None:
    assert parse_image_uri(uri) is None


@pytest.mark.parametrize(
    ("failure", "exists"),
    [("ImageNotFound", False), ("ImageTagDoesNotMatchDigest", False), (None, True), ("no repository", False)],
)
def test_ecr_tells_whether_it_has_the_image(ecr: Any, failure: str | None, exists: bool) -> None:
    answer = {"failures": [{"failureCode": failure}]} if failure else {"images": [{"imageId": {}}]}
    with Stubber(ecr) as stubbed:
        if failure == "no repository":
            stubbed.add_client_error("batch_get_image", "RepositoryNotFoundException")
        else:
            stubbed.add_response("batch_get_image", answer)
        assert fetch_image(ecr, OWN) == Image(OWN.uri, exists, "us-west-2")


def test_image_that_cannot_be_handed_out_is_no_missing_one(ecr: Any) -> None:
    with Stubber(ecr) as stubbed, pytest.raises(AwsRefusal, match="KmsError"):
        stubbed.add_response("batch_get_image", {"failures": [{"failureCode": "KmsError"}]})
        fetch_image(ecr, OWN)


CODES: dict[str, dict[str, str]] = json.loads(
    resources.files("launcher.account").joinpath("quota_codes.json").read_text("utf-8")
)["codes"]

WITHOUT_A_KNOWN_CODE = ("ml.g7.", "ml.g7e.", "ml.p2.", "ml.p6-b300.", "ml.p6e-gb200.", "ml.trn2.")
"""What no public list shows yet, or no longer: looked for by the names of the quotas."""


@pytest.mark.parametrize("use", get_args(Use))
def test_the_quotas_of_hosts_with_accelerators_are_known_by_their_codes(use: Use) -> None:
    accelerated = [name for name in training_instance_types() if _accelerators(name)]
    unknown = [name for name in accelerated if known_code(quota_name(name, use)) is None]
    assert unknown == [name for name in accelerated if name.startswith(WITHOUT_A_KNOWN_CODE)]
    assert len(accelerated) > 2 * len(unknown)


def test_no_two_quotas_have_one_code() -> None:
    codes = [code for by_type in CODES.values() for code in by_type.values()]
    assert len(codes) == len(set(codes)) > 300


def _accelerators(instance_type: str) -> int:
    facts = instance_facts(instance_type)
    return facts.accelerators if facts else 0


NAMES = [f"job-{number}" for number in range(5)]


@pytest.fixture
def jobs() -> list[dict[str, Any]]:
    return [{"TrainingJobName": name, "TrainingJobStatus": "InProgress"} for name in NAMES]


@pytest.fixture
def sagemaker(jobs: list[dict[str, Any]]) -> Iterator[Any]:
    with mock_aws(), emulated_search(jobs):
        yield boto3.client("sagemaker", region_name="us-west-2")


def test_jobs_of_every_page_are_read_and_those_that_stop_still_hold_their_hosts(
    sagemaker: Any, jobs: list[dict[str, Any]]
) -> None:
    assert [each.name for each in fetch_running_jobs(sagemaker)] == NAMES
    states = ("InProgress", "Stopping", "Completed", "Failed", "Stopped")
    jobs[:] = [{"TrainingJobName": state, "TrainingJobStatus": state} for state in states]
    assert {each.status for each in fetch_running_jobs(sagemaker)} == {"InProgress", "Stopping"}


def test_refusal_names_the_permission(sagemaker: Any) -> None:
    inject(sagemaker, "Search", DENIED)

    with pytest.raises(AwsRefusal, match="sagemaker:Search"):
        fetch_running_jobs(sagemaker)


def test_everything_that_is_described_is_read() -> None:
    resources = {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 4, "KeepAlivePeriodInSeconds": 600}
    described = {
        "TrainingJobName": "other",
        "TrainingJobStatus": "Stopping",
        "ResourceConfig": resources,
        "CheckpointConfig": {"S3Uri": "s3://checkpoints/other"},
        "EnableManagedSpotTraining": True,
        "RoleArn": "arn:aws:iam::111122223333:role/training",
        "VpcConfig": {"Subnets": ["subnet-1", "subnet-2"], "SecurityGroupIds": ["sg-1"]},
        "Tags": [{"Key": "team", "Value": "x"}, {"Key": "slipway:cluster", "Value": "dev"}],
    }

    expected = RunningJob(
        "other", "Stopping", "s3://checkpoints/other", "ml.p4d.24xlarge", 4, spot=True, keeps_hosts=True,
        role_arn="arn:aws:iam::111122223333:role/training", subnet_ids=("subnet-1", "subnet-2"),
        cluster="dev",
    )  # fmt: skip
    assert parse_running_job(described) == expected


def test_a_job_of_several_instance_groups_names_no_type() -> None:
    found = parse_running_job({"TrainingJobName": "other", "ResourceConfig": {"InstanceGroups": [{}, {}]}})

    assert (found.instance_type, found.hosts, found.checkpoints) == (None, 0, None)
    assert not found.keeps_hosts
    # Checkpoints that the container copies are read from its environment.
    copied = {"TrainingJobName": "a", "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://team/runs/a"}}
    assert parse_running_job(copied).checkpoints == "s3://team/runs/a"


def test_a_job_whose_type_the_service_chose_holds_hosts_of_that_type() -> None:
    resources = {"InstancePreferences": [{"InstanceType": "ml.p5.48xlarge"}], "InstanceCount": 2}
    waiting = parse_running_job({"TrainingJobName": "other", "ResourceConfig": resources})
    resources["SelectedInstanceType"] = "ml.p5e.48xlarge"
    started = parse_running_job({"TrainingJobName": "other", "ResourceConfig": resources})
    assert (waiting.instance_type, started.instance_type) == (None, "ml.p5e.48xlarge")
    assert started.hosts == 2
