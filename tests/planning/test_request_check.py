"""Violations of the API model, told in terms of the job file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import load_job
from launcher.planning.request_check import check_request, job_path

REQUEST = {
    "InputDataConfig": [{"ChannelName": "train"}, {"ChannelName": "val"}],
    "AlgorithmSpecification": {"MetricDefinitions": [{"Name": "loss"}, {"Name": "accuracy"}]},
    "TrainingJobDefinition": {"InputDataConfig": [{"ChannelName": "corpus"}]},
    "HyperParameterTuningJobConfig": {
        "ParameterRanges": {"CategoricalParameterRanges": [{"Name": "optimizer"}]}
    },
}


@pytest.mark.parametrize(
    ("part", "field"),
    [
        (("TrainingJobName",), ("name",)),
        (("Environment", "A"), ("environment", "A")),
        (("HyperParameters", "lr"), ("hyperparameters", "lr")),
        (("InputDataConfig", 1, "DataSource", "S3DataSource", "S3Uri"), ("inputs", "val")),
        (("Tags", 3, "Value"), ("tags",)),
        (("StoppingCondition", "MaxWaitTimeInSeconds"), ("limits", "max_wait")),
        (("ResourceConfig", "Strange"), ("resources",)),
        (("SomethingNew",), ()),
        (("AlgorithmSpecification", "MetricDefinitions", 1, "Regex"), ("metrics", "accuracy")),
        (("TrainingJobDefinition", "StaticHyperParameters", "lr"), ("hyperparameters", "lr")),
        (("TrainingJobDefinition", "Environment", "A"), ("environment", "A")),
        (("TrainingJobDefinition", "InputDataConfig", 0, "ChannelName"), ("inputs", "corpus")),
        (("HyperParameterTuningJobName",), ("name",)),
        (("HyperParameterTuningJobConfig", "ParameterRanges", "CategoricalParameterRanges", 0, "Values", 2),
         ("tuning", "ranges", "optimizer")),
        (("HyperParameterTuningJobConfig", "ResourceLimits", "MaxNumberOfTrainingJobs"),
         ("tuning", "max_jobs")),
        (("HyperParameterTuningJobConfig", "Strange"), ("tuning",)),
    ],
)  # fmt: skip
def test_a_part_of_the_request_is_led_back_to_its_field(part: tuple, field: tuple) -> None:
    assert job_path(part, REQUEST) == field


def test_a_violation_names_the_field_and_its_line(write_job: Callable[..., Path]) -> None:
    loaded = load_job(write_job(environment={"A": "x" * 600}))
    request = {"Environment": {"A": "x" * 600}}
    finding = next(
        item for item in check_request("CreateTrainingJob", request) if item.subject == "environment.A"
    )
    assert finding.code == "SPEC004"
    assert "512" in finding.remedy
    assert finding.located(loaded.location).location.line > 1
