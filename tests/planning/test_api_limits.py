"""A request against the API model."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from launcher.planning.api_limits import violations

REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits-1",
    "AlgorithmSpecification": {"TrainingImage": "account/image:1", "TrainingInputMode": "File"},
    "RoleArn": "arn:aws:iam::111122223333:role/r",
    "HyperParameters": {"lr": "0.1"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/"},
    "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 86400},
    "Tags": [{"Key": "équipe", "Value": "vision 7"}],
}


def broken(change: dict[str, Any]) -> list[tuple[str, str]]:
    request = copy.deepcopy(REQUEST)
    for path, value in change.items():
        *way, last = path.split(".")
        target = request
        for key in way:
            target = target.setdefault(key, {})
        target[last] = value
    found = violations("CreateTrainingJob", request)
    return [(item.subject, f"{item.message}; {item.remedy}") for item in found]


def test_a_sound_request_breaks_nothing() -> None:
    assert broken({}) == []


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"TrainingJobName": "a_b"}, "TrainingJobName", "a_b"),
        ({"TrainingJobName": "x" * 64}, "TrainingJobName", "form"),
        ({"ResourceConfig.InstanceType": "ml.p4d.24xlrge"}, "ResourceConfig.InstanceType", "ml.p4d.24xlarge"),
        ({"ResourceConfig.InstanceCount": "2"}, "ResourceConfig.InstanceCount", "integer"),
        ({"ResourceConfig.InstanceCount": True}, "ResourceConfig.InstanceCount", "integer"),
        ({"ResourceConfig.InstanceCount": -1}, "ResourceConfig.InstanceCount", "at least 0"),
        ({"StoppingCondition.MaxRuntimeInSeconds": 0}, "StoppingCondition.MaxRuntimeInSeconds", "at least 1"),
        ({"Environment": {f"V{n}": "1" for n in range(101)}}, "Environment", "at most 100 entries"),
        ({"Environment": {"A": "x" * 513}}, "Environment.A", "at most 512 characters"),
        ({"Environment": {"1A": "x"}}, "Environment.1A", "form"),
        ({"HyperParameters": {"k": "v" * 2501}}, "HyperParameters.k", "at most 2500 characters"),
        ({"Tags": [{"Key": "k", "Value": "tab\there"}]}, "Tags.0.Value", "form"),
        ({"Unheard": 1}, "Unheard", "unknown"),
        ({"VpcConfig": {"Subnets": []}}, "VpcConfig.SecurityGroupIds", "required"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_the_service_would_refuse_is_found_with_its_limit(
    change: dict[str, Any], path: str, says: str
) -> None:
    assert any(where == path and says in what for where, what in broken(change)), broken(change)


@pytest.mark.parametrize(
    "change",
    [
        {"TrainingJobName": "x" * 63},
        {"Environment": {f"V{n}": "x" * 512 for n in range(100)}},
        {"HyperParameters": {"k" * 256: "v" * 2500}},
    ],
    ids=["name", "environment", "hyperparameters"],
)
def test_the_largest_that_the_service_takes_is_taken(change: dict[str, Any]) -> None:
    assert broken(change) == []


def test_no_value_of_the_environment_is_repeated() -> None:
    found = broken({"Environment": {"KEY": "planted" + "x" * 600}})
    assert found
    assert "planted" not in str(found)
