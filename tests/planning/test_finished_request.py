"""Names, and the request of a job that resumes another; what only the hosts of one job know."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest

from launcher.cluster.names import MAX_NAME_LENGTH
from launcher.planning import finished_request
from launcher.planning.finished_request import (
    HOST_TOKEN_VARIABLE,
    build_resumed_request,
    make_job_name,
    make_resumed_name,
    make_unique_part,
    with_host_token,
    without_host_token,
)
from tests.planning.plan_cases import make_plan


def test_the_longest_base_makes_a_name_that_the_service_takes() -> None:
    name = make_job_name("x" * MAX_NAME_LENGTH, make_unique_part())
    assert len(name) == 63
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)


def test_names_sort_by_time() -> None:
    with mock.patch.object(finished_request.time, "time_ns", side_effect=[10**15, 10**18, 10**18 + 10**6]):
        parts = [make_unique_part() for _ in range(3)]
    assert parts == sorted(parts)


@pytest.mark.parametrize("times", [1000])
def test_parts_of_one_moment_differ(times: int) -> None:
    with mock.patch.object(finished_request.time, "time_ns", return_value=10**18):
        assert len({make_unique_part() for _ in range(times)}) == times


def test_a_job_that_resumes_another_is_on_the_same_cluster(manifest: dict[str, Any]) -> None:
    request = make_plan({"manifest": {}}, manifest).request or {}
    resumed = build_resumed_request(request, "digits-0unique", "digits-1unique")
    assert {"Key": "slipway:cluster", "Value": "dev"} in resumed["Tags"]


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
    assert build_resumed_request(REQUEST, "digits-1", "digits-2") == {
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
    moved = build_resumed_request(request, "digits-1", "digits-2")
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
    name = make_resumed_name(earlier, UNIQUE)
    assert name == f"{base}-{UNIQUE}"
    assert len(name) <= 63


def test_the_service_chooses_the_type_of_a_resumed_job_anew() -> None:
    asked = {"InstancePreferences": [{"InstanceType": "ml.p5.48xlarge"}], "InstanceCount": 2}
    described = {**asked, "SelectedInstanceType": "ml.p5.48xlarge", "SelectedInstanceCount": 2}
    again = build_resumed_request({"ResourceConfig": described}, "digits-1", "digits-2")
    assert again["ResourceConfig"] == asked


def test_a_job_of_several_boots_is_sent_with_a_token_of_its_own() -> None:
    boot = {
        "AlgorithmSpecification": {"ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/slipway.pyz"]}
    }
    two = {**boot, "ResourceConfig": {"InstanceCount": 2}, "Environment": {"A": "1"}}
    sent = [with_host_token(two, *of) for of in (("a", b"x"), ("b", b"x"), ("a", b"y"), ("a", b"x"))]
    tokens = [each["Environment"][HOST_TOKEN_VARIABLE] for each in sent]
    assert len(set(tokens)) == 3 and tokens[0] == tokens[3]
    assert all(len(token) == 32 for token in tokens)
    assert two["Environment"] == {"A": "1"}
    assert without_host_token(with_host_token(two, "a", b"x")) == two
    resumed = build_resumed_request(with_host_token(two, "a", b"x"), "a", "b")
    assert HOST_TOKEN_VARIABLE not in resumed["Environment"]
    tuning = {"TrainingJobDefinition": two}
    assert HOST_TOKEN_VARIABLE in with_host_token(tuning, "a", b"x")["TrainingJobDefinition"]["Environment"]
    one = {**two, "ResourceConfig": {"InstanceCount": 1}}
    assert with_host_token(one, "a", b"x") == one
    full = {**two, "Environment": {f"A{number}": "" for number in range(48)}}
    assert with_host_token(full, "a", b"x") == full
