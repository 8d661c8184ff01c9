"""The request: what a job asks of the service, and what the API's model says against it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load_job import load_job
from launcher.planning.request import check_request, find_violations, job_file_path, options_on_aws_alone
from launcher.planning.request_view import RequestView
from launcher.planning.show_plan import request_diff
from tests.planning.plan_cases import make_plan

ROOT = Path(__file__).parents[2]
MLFLOW = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/team"
ON: tuple[tuple[dict[str, Any], str, Any], ...] = (
    ({"resources.infra_check": True}, "InfraCheckConfig", {"EnableInfraCheck": True}),
    ({"debug": {"remote": True}}, "RemoteDebugConfig", {"EnableRemoteDebug": True}),
    ({"network": {"isolation": True}}, "EnableNetworkIsolation", True),
    ({"network": {"encryption": True}}, "EnableInterContainerTrafficEncryption", True),
    ({"mlflow": {"arn": MLFLOW}}, "MlflowConfig", {"MlflowResourceArn": MLFLOW}),
    (
        {"mlflow": {"arn": MLFLOW, "experiment": "e", "run": "r"}},
        "MlflowConfig",
        {"MlflowResourceArn": MLFLOW, "MlflowExperimentName": "e", "MlflowRunName": "r"},
    ),
)
"""What a job file switches on, and the member of the request that says so."""


@pytest.mark.parametrize(("given", "member", "value"), ON, ids=[member for _, member, _ in ON])
def test_what_is_switched_on_is_one_member_of_the_request(
    given: dict[str, Any], member: str, value: Any
) -> None:
    made, without = make_plan(given), make_plan({})
    assert not made.refused, made.findings
    assert made.request == {**(without.request or {}), member: value}


def test_what_is_off_is_not_in_the_request() -> None:
    assert not {member for _, member, _ in ON} & set(make_plan({}).request or {})


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ({}, []),
        ({"InfraCheckConfig": {"EnableInfraCheck": True}}, ["resources.infra_check"]),
        ({"RemoteDebugConfig": {"EnableRemoteDebug": True}}, ["debug.remote"]),
        ({"EnableNetworkIsolation": True}, ["network.isolation"]),
        ({"EnableInterContainerTrafficEncryption": True}, ["network.encryption"]),
        ({"MlflowConfig": {"MlflowResourceArn": MLFLOW}}, ["mlflow"]),
        ({"ResourceConfig": {"InstancePlacementConfig": {}}}, ["resources.placement"]),
        (
            {"ResourceConfig": {"InstancePreferences": [{"InstanceType": "a"}, {"InstanceType": "b"}]}},
            ["resources.instance_choice"],
        ),
    ],
)
def test_a_run_on_this_machine_has_none_of_it(request_: dict[str, Any], fields: list[str]) -> None:
    assert list(options_on_aws_alone(RequestView(request_))) == fields


EVERYTHING: dict[str, Any] = {
    "checkpoint": {"s3_uri": "s3://team/checkpoints"},
    "debugger": True,
    "network": {
        "subnets": ["subnet-1"],
        "security_group_ids": ["sg-1"],
        "isolation": True,
        "encryption": True,
    },
    "debug": {"remote": True},
    "mlflow": {"arn": MLFLOW},
    "resources.capacity": "spot",
    "resources.infra_check": True,
    "hosts": 1,
    "strategy": "none",
    "hyperparameters": {"lr": 1},
    "inputs": {"train": "s3://team/train"},
    "limits": {"max_retries": 1},
    "tags": {"team": "vision"},
}


def test_each_member_of_the_api_is_reached_by_a_field_or_named_as_left_out() -> None:
    shapes = json.loads((ROOT / "launcher/planning/api_model.json").read_text("utf-8"))["shapes"]
    page = (ROOT / "docs/reference/job-file.md").read_text("utf-8")
    (said,) = [line for line in page.splitlines() if line.startswith("No field leads to these members")]
    left_out = {name for name in re.findall(r"`([A-Z]\w+)`", said) if "." not in name}
    everything = make_plan(EVERYTHING)
    request = everything.request or {}
    reached = set(request) | {"DebugHookConfig"}
    assert set(shapes["CreateTrainingJobRequest"]["members"]) - reached == left_out


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
    assert job_file_path(part, REQUEST) == field


@pytest.mark.parametrize("start", ["torchrun", "tuned"])
@pytest.mark.parametrize(
    ("changes", "subject", "most"),
    [
        ({"environment": {"SECRET": "x" * 513}}, "environment.SECRET", 512),
        ({"hyperparameters": {"a": "x" * 2501}}, "hyperparameters.a", 2500),
        ({"metrics": {"a": "(a)" + "b" * 500}}, "metrics.a", 500),
        ({"inputs": {"train": "s3://mine/" + "x" * 1024}}, "inputs.train", 1024),
        ({"as": "tuned", "tuning.ranges": {"a": ["x" * 257]}}, "tuning.ranges.a", 256),
    ],
)
def test_what_the_api_model_refuses_is_found_at_its_field(
    start: str, changes: dict[str, Any], subject: str, most: int
) -> None:
    (found,) = [each for each in make_plan({"as": start, **changes}).findings if each.blocks]
    assert (found.code, found.subject) == ("SPEC004", subject)
    assert f"at most {most} characters" in found.remedy


def test_a_name_without_room_for_the_unique_part_of_a_search_is_refused() -> None:
    fits, too_long = (make_plan({"as": "tuned", "name": "a" * most}, unique="0" * 17) for most in (14, 15))
    assert not fits.refused and too_long.request is None
    (found,) = [each for each in too_long.findings if each.blocks]
    assert (found.code, found.subject) == ("SPEC003", "name")
    assert "14 characters" in found.remedy


def test_a_finding_has_the_line_of_its_field(write_job: Callable[..., Path]) -> None:
    loaded = load_job(write_job(environment={"A": "x" * 600}))
    found = next(iter(check_request("CreateTrainingJob", {"Environment": {"A": "x" * 600}})))
    assert found.located(loaded.location).location.line > 1


def test_no_message_repeats_a_value_that_may_be_secret() -> None:
    request = {"TrainingJobDefinition": {"StaticHyperParameters": {"a": "planted\n"}}}
    found = [
        each for each in find_violations("CreateHyperParameterTuningJob", request) if "form" in each.remedy
    ]
    assert ["has this value" in each.message for each in found] == [True]
    assert "planted" not in found[0].message + found[0].remedy


@pytest.mark.parametrize("start", ["torchrun", "tuned"])
def test_two_plans_of_a_job_differ_only_by_the_unique_part(start: str, manifest: dict[str, Any]) -> None:
    job = {"as": start, "manifest": {}}
    one, other = (make_plan(job, manifest, unique).request or {} for unique in ("0aaaa", "0bbbb"))
    assert one != other and request_diff(one, other) == []
    assert str(one).replace("0aaaa", "U") == str(other).replace("0bbbb", "U")
    assert request_diff(one, make_plan({**job, "hosts": 3}, manifest).request or {}) != []


def test_other_types_change_nothing_but_who_chooses() -> None:
    def sent(**resources: Any) -> dict[str, Any]:
        made = make_plan({"type": "ml.p5.48xlarge", **{f"resources.{k}": v for k, v in resources.items()}})
        assert not made.refused, made.findings
        return dict(made.request or {})

    alone = sent()
    assert alone["ResourceConfig"]["InstanceType"] == "ml.p5.48xlarge"
    assert sent(instance_choice="launcher") == sent(instance_types=["ml.p5e.48xlarge"]) == alone
    service = sent(instance_types=["ml.p5e.48xlarge"], instance_choice="service")
    assert {**service, "ResourceConfig": None} == {**alone, "ResourceConfig": None}


COMPLETE_REQUEST: dict[str, Any] = {
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
    request = copy.deepcopy(COMPLETE_REQUEST)
    for path, value in change.items():
        *way, last = path.split(".")
        target = request
        for key in way:
            target = target.setdefault(key, {})
        target[last] = value
    found = find_violations("CreateTrainingJob", request)
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
