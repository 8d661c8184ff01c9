"""What a request names in the account."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.planning.request_view import RequestView
from launcher.session.wanted import wanted_of


def request(**changes: Any) -> dict[str, Any]:
    minimal = {
        "TrainingJobName": "digits-1",
        "RoleArn": "arn:aws-cn:iam::123456789012:role/training",
        "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 4},
        "OutputDataConfig": {"S3OutputPath": "s3://output/"},
    }
    return {**minimal, **changes}


def channel(name: str, uri: str) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}}


def test_job_with_nothing_but_a_role_and_hosts() -> None:
    wanted = wanted_of(RequestView(request()), "cn-north-1")

    assert (wanted.instance_type, wanted.instance_count) == ("ml.p5.48xlarge", 4)
    assert (wanted.partition, wanted.account) == ("aws-cn", "123456789012")
    assert (wanted.subnet_ids, wanted.file_system_id, wanted.image) == ((), None, None)
    assert wanted.buckets == ("output",)
    assert not (wanted.spot or wanted.warm_pool or wanted.training_plan)


def test_code_is_read_but_not_yet_there_to_be_looked_at() -> None:
    channels = [channel("train", "s3://data/a"), channel("code", "s3://code/digits-1")]

    wanted = wanted_of(RequestView(request(InputDataConfig=channels)), "us-west-2")

    assert wanted.reads == ("s3://data/a", "s3://code/digits-1")
    assert wanted.looked_into == ("s3://data/a",)
    assert wanted.buckets == ("data", "code", "output")


@pytest.mark.parametrize("value", ['"s3://code/a.tar.gz"', "s3://code/a.tar.gz"])
def test_code_of_the_toolkits_is_a_hyperparameter(value: str) -> None:
    wanted = wanted_of(
        RequestView(request(HyperParameters={"sagemaker_submit_directory": value})), "us-west-2"
    )

    assert wanted.reads == ("s3://code/a.tar.gz",)


@pytest.mark.parametrize(
    "changes",
    [
        {"CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1"}},
        {"Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://checkpoints/digits-1"}},
    ],
)
def test_checkpoints_are_read_and_written(changes: dict[str, Any]) -> None:
    wanted = wanted_of(RequestView(request(**changes)), "us-west-2")

    assert wanted.reads == wanted.looked_into == ("s3://checkpoints/digits-1",)
    assert wanted.writes == ("s3://checkpoints/digits-1", "s3://output/")


def test_capacity_and_keys_are_read() -> None:
    resources = {
        "InstanceType": "ml.g5.xlarge",
        "InstanceCount": 1,
        "KeepAlivePeriodInSeconds": 60,
        "VolumeKmsKeyId": "key-1",
        "TrainingPlanArn": "arn",
    }
    output = {"S3OutputPath": "s3://output/", "KmsKeyId": "key-2"}

    changed = request(ResourceConfig=resources, OutputDataConfig=output, EnableManagedSpotTraining=True)
    wanted = wanted_of(RequestView(changed), "us-west-2")

    assert (wanted.spot, wanted.warm_pool, wanted.training_plan) == (True, True, True)
    assert (wanted.volume_keys, wanted.output_keys) == (("key-1",), ("key-2",))
