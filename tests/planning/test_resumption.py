"""The request of a job that goes on from an earlier one."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.planning.resumption import resumed_name, resumed_request

UNIQUE = "0123456789abcdefg"
REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits-1",
    "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1", "LocalPath": "/opt/ml/checkpoints"},
    "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://mine/digits-1", "NCCL_DEBUG": "WARN"},
    "Tags": [
        {"Key": "team", "Value": "vision"},
        {"Key": "slipway:resumed-from", "Value": "digits-0"},
        {"Key": "aws:created-by", "Value": "somebody"},
    ],
}


def test_only_name_prefixes_and_tags_change() -> None:
    assert resumed_request(REQUEST, "digits-1", "digits-2") == {
        "TrainingJobName": "digits-2",
        "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-2", "LocalPath": "/opt/ml/checkpoints"},
        "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://mine/digits-2", "NCCL_DEBUG": "WARN"},
        "Tags": [
            {"Key": "team", "Value": "vision"},
            {"Key": "slipway:resumed-from", "Value": "digits-1"},
        ],
    }
    assert REQUEST["TrainingJobName"] == "digits-1"


def test_a_prefix_that_is_not_the_jobs_own_gets_a_part_of_the_new_jobs() -> None:
    request = {"CheckpointConfig": {"S3Uri": "s3://checkpoints/shared/"}}
    moved = resumed_request(request, "digits-1", "digits-2")
    assert moved["CheckpointConfig"]["S3Uri"] == "s3://checkpoints/shared/digits-2"


@pytest.mark.parametrize(
    ("earlier", "base"),
    [
        (f"digits-{'0' * 17}", "digits"),
        ("somebody-elses-job", "somebody-elses-job"),
        ("x" * 44 + "-" + "y" * 18, "x" * 44),
        ("z" * 63, "z" * 45),
    ],
    ids=["one of ours", "another's", "cut at a hyphen", "cut"],
)
def test_the_new_name_has_another_unique_part_and_room_for_it(earlier: str, base: str) -> None:
    name = resumed_name(earlier, UNIQUE)
    assert name == f"{base}-{UNIQUE}"
    assert len(name) <= 63


def test_the_service_chooses_the_type_of_a_resumed_job_anew() -> None:
    asked = {"InstancePreferences": [{"InstanceType": "ml.p5.48xlarge"}], "InstanceCount": 2}
    described = {**asked, "SelectedInstanceType": "ml.p5.48xlarge", "SelectedInstanceCount": 2}
    again = resumed_request({"ResourceConfig": described}, "digits-1", "digits-2")
    assert again["ResourceConfig"] == asked
