"""From a job with `tuning` to the CreateHyperParameterTuningJob request."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import Severity
from launcher.jobs.load_job import load_job
from launcher.planning.planner import plan_job
from launcher.planning.request import find_violations
from launcher.planning.show_plan import request_diff
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import source_of

TUNING: dict[str, Any] = {
    "objective": {"metric": "eval_loss", "goal": "minimize", "regex": "eval_loss=([0-9.]+)"},
    "ranges": {
        "lr": {"min": 1e-5, "max": 0.01, "scaling": "logarithmic"},
        "batch_size": {"min": 8, "max": 64, "type": "integer"},
        "optimizer": ["adamw", "lion", 16, True],
    },
    "max_jobs": 20,
    "parallel": 4,
}
GOLDEN = Path(__file__).parents[1] / "golden"
Plan = Callable[..., TrainingPlan]


@pytest.fixture
def plan_of(write_job: Callable[..., Path]) -> Plan:
    def plan(
        cluster: dict[str, Any] | None = None,
        unique: str = "0unique",
        tuning: dict[str, Any] | None = None,
        **changes: Any,
    ) -> TrainingPlan:
        loaded = load_job(write_job(**changes, tuning={**TUNING, **(tuning or {})}))
        assert loaded.spec is not None, loaded.findings
        made = plan_job(
            loaded.spec,
            None if cluster is None else Cluster.model_validate(cluster),
            unique=unique,
            source=source_of(loaded.spec, loaded.file.parent),
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )
        return replace(made, findings=tuple(found.located(loaded.location) for found in made.findings))

    return plan


def errors(plan: TrainingPlan) -> list[tuple[str, str | None]]:
    return [(found.code, found.subject) for found in plan.findings if found.severity is Severity.ERROR]


def assert_the_api_model_accepts(request: dict[str, Any]) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    shape = model.operation_model("CreateHyperParameterTuningJob").input_shape
    report = ParamValidator().validate(request, shape)
    assert not report.has_errors(), report.generate_report()


def test_the_ranges_are_texts_in_the_apis_three_kinds(plan_of: Plan) -> None:
    plan = plan_of()
    assert not plan.refused, plan.findings
    assert_the_api_model_accepts(plan.request)
    assert plan.request["HyperParameterTuningJobConfig"] == {
        "Strategy": "Bayesian",
        "HyperParameterTuningJobObjective": {"Type": "Minimize", "MetricName": "eval_loss"},
        "ResourceLimits": {"MaxParallelTrainingJobs": 4, "MaxNumberOfTrainingJobs": 20},
        "ParameterRanges": {
            "ContinuousParameterRanges": [
                {"Name": "lr", "MinValue": "1e-05", "MaxValue": "0.01", "ScalingType": "Logarithmic"}
            ],
            "IntegerParameterRanges": [
                {"Name": "batch_size", "MinValue": "8", "MaxValue": "64", "ScalingType": "Auto"}
            ],
            "CategoricalParameterRanges": [
                {"Name": "optimizer", "Values": ['"adamw"', '"lion"', "16", "true"]}
            ],
        },
        "TrainingJobEarlyStoppingType": "Off",
    }


def test_the_plan_shows_each_job_as_it_shows_a_single_one(plan_of: Plan) -> None:
    plan = plan_of(metrics={"loss": "loss=([0-9.]+)"})
    assert (plan.operation, plan.name) == ("CreateHyperParameterTuningJob", "digits-0unique")
    assert plan.request["HyperParameterTuningJobName"] == plan.name
    assert plan.view.training is plan.request["TrainingJobDefinition"]
    assert plan.view.training["ResourceConfig"]["InstanceCount"] == 2
    algorithm = plan.view.training["AlgorithmSpecification"]
    assert sorted(algorithm) == ["MetricDefinitions", "TrainingImage", "TrainingInputMode"]
    assert [metric["Name"] for metric in algorithm["MetricDefinitions"]] == ["loss", "eval_loss"]
    assert plan.world_size == 16


@pytest.mark.parametrize("name", ["torchrun-p4d", "none-single", "smp2-p4d", "mpi-p4d", "smddp-p4d"])
def test_the_toolkit_is_told_what_the_sdk_tells_it(plan_of: Plan, name: str) -> None:
    golden = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    sent = golden["request"]["HyperParameters"]
    job = {"distribution": {"strategy": "none"}, **golden["job"]}
    plan = plan_of(**job, tuning={"ranges": {"momentum": {"min": 0.1, "max": 0.9}}})
    assert not plan.refused, plan.findings
    ours = dict(plan.view.training["StaticHyperParameters"])
    varying = ("sagemaker_submit_directory", "sagemaker_job_name")
    assert ours["sagemaker_submit_directory"].endswith('/sourcedir.tar.gz"')
    # The toolkit's runner reads it in every mode; the SDK sends it with MPI alone.
    extra = {"sagemaker_mpi_num_of_processes_per_host"} - sent.keys()
    # It says what is off, which the toolkit takes for granted.
    missing = {key for key, value in sent.items() if value == "false" and key not in ours}
    assert {key: value for key, value in ours.items() if key not in {*varying, *extra}} == {
        key: value for key, value in sent.items() if key not in {*varying, *missing}
    }


def test_the_toolkit_fetches_the_source_so_no_channel_brings_it(plan_of: Plan) -> None:
    plan = plan_of(inputs={"train": "s3://mine/train"})
    assert [channel["ChannelName"] for channel in plan.view.training["InputDataConfig"]] == ["train"]
    assert (plan.package.archive, plan.package.with_boot) == ("sourcedir.tar.gz", False)


def test_what_the_training_definition_has_too_is_sent(plan_of: Plan, manifest: dict[str, Any]) -> None:
    plan = plan_of(
        manifest,
        resources={"instance_type": "ml.p4d.24xlarge", "capacity": "spot"},
        limits={"max_retries": 2},
        tags={"team": "research"},
        debugger=True,
    )
    assert_the_api_model_accepts(plan.request)
    assert plan.view.training["EnableManagedSpotTraining"] is True
    assert plan.view.training["RetryStrategy"] == {"MaximumRetryAttempts": 2}
    assert plan.view.training["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]
    assert plan.request["Tags"] == [
        {"Key": "team", "Value": "research"},
        {"Key": "slipway:cluster", "Value": "dev"},
    ]
    assert not {"DebugHookConfig", "ProfilerConfig", "Tags"} & plan.view.training.keys()


def test_jobs_of_a_cluster_get_no_prefix_that_all_would_share(
    plan_of: Plan, manifest: dict[str, Any]
) -> None:
    assert "CheckpointConfig" not in plan_of(manifest).view.training
    own = plan_of(manifest, checkpoint={"s3_uri": "s3://mine/c"}).view.training
    assert own["CheckpointConfig"]["S3Uri"] == "s3://mine/c/digits-0unique"


def test_a_grid_hyperband_and_a_seed_are_told(plan_of: Plan) -> None:
    grid = plan_of(tuning={"strategy": "Grid", "ranges": {"a": [1, 2]}, "max_jobs": 2, "parallel": 2})
    assert grid.request["HyperParameterTuningJobConfig"]["ResourceLimits"] == {"MaxParallelTrainingJobs": 2}
    other = plan_of(
        tuning={
            "strategy": "Hyperband",
            "hyperband": {"max_resource": 9},
            "random_seed": 7,
            "max_runtime": "2h",
        }
    )
    assert_the_api_model_accepts(other.request)
    config = other.request["HyperParameterTuningJobConfig"]
    assert config["StrategyConfig"] == {"HyperbandStrategyConfig": {"MaxResource": 9}}
    assert config["ResourceLimits"]["MaxRuntimeInSeconds"] == 7200
    assert config["RandomSeed"] == 7


def test_a_name_without_room_for_the_unique_part_is_refused(plan_of: Plan) -> None:
    unique = "0" * 17
    assert not plan_of(name="a" * 14, unique=unique).refused
    plan = plan_of(name="a" * 15, unique=unique)
    assert plan.request is None
    assert errors(plan) == [("SPEC003", "name")]
    (found,) = [found for found in plan.findings if found.subject == "name"]
    assert "14 characters" in found.remedy
    assert found.location.line > 1


@pytest.mark.parametrize(
    ("changes", "tuning", "found"),
    [
        ({"code": {"entry_point": "run.sh"}}, {}, ("CODE002", "code.entry_point")),
        ({"code": {"module": "pkg.train"}}, {}, ("SPEC003", "code.module")),
        (
            {"code": {"entry_point": "train.py", "argument_style": "hydra"}},
            {},
            ("SPEC003", "code.argument_style"),
        ),
        ({"framework": {"version": "1.12.0"}}, {}, ("DIST002", "framework.version")),
        (
            {"code": {"entry_point": "train.py", "arguments": ["--deep"]}},
            {},
            ("SPEC003", "code.arguments"),
        ),
        ({"hyperparameters": {"a": "x y"}}, {}, ("SPEC003", "hyperparameters.a")),
        ({}, {"ranges": {"a": ["x", "x;y"]}}, ("SPEC003", "tuning.ranges.a")),
        ({}, {"ranges": {"a b": ["x"]}}, ("SPEC003", "tuning.ranges.a b")),
        ({}, {"ranges": {"sagemaker_a": ["x"]}}, ("SPEC003", "tuning.ranges.sagemaker_a")),
        (
            {"checkpoint": {"s3_uri": "s3://mine/c", "resume_from": "digits-1"}},
            {},
            ("SPEC003", "checkpoint.resume_from"),
        ),
    ],
)
def test_what_the_toolkit_cannot_start_is_found(
    plan_of: Plan, changes: dict[str, Any], tuning: dict[str, Any], found: tuple[str, str]
) -> None:
    plan = plan_of(**changes, tuning=tuning)
    assert plan.refused
    assert errors(plan) == [found]


def test_smps_own_parameter_is_objected_to_once(plan_of: Plan) -> None:
    plan = plan_of(
        distribution={"strategy": "smp"},
        framework={"version": "2.4.1"},
        hyperparameters={"mp_parameters": "a"},
    )
    assert errors(plan) == [("SPEC003", "hyperparameters.mp_parameters")]


@pytest.mark.parametrize(
    ("changes", "tuning", "subject"),
    [
        ({"environment": {"SECRET": "x" * 600}}, {}, "environment.SECRET"),
        ({"hyperparameters": {"a": "x" * 2501}}, {}, "hyperparameters.a"),
        ({"metrics": {"a": "(a)" + "b" * 500}}, {}, "metrics.a"),
        ({}, {"ranges": {"a": ["x" * 257]}}, "tuning.ranges.a"),
        ({"inputs": {"train": "s3://mine/" + "x" * 1024}}, {}, "inputs.train"),
    ],
)
def test_what_the_api_model_refuses_is_found_at_its_field(
    plan_of: Plan, changes: dict[str, Any], tuning: dict[str, Any], subject: str
) -> None:
    plan = plan_of(**changes, tuning=tuning)
    assert errors(plan) == [("SPEC004", subject)]
    (found,) = [found for found in plan.findings if found.subject == subject]
    assert found.location.line > 1


def test_no_message_repeats_a_value_that_may_be_secret() -> None:
    request = {"TrainingJobDefinition": {"StaticHyperParameters": {"a": "planted\n"}}}
    found = [
        each for each in find_violations("CreateHyperParameterTuningJob", request) if "form" in each.remedy
    ]
    assert ["has this value" in each.message for each in found] == [True]
    assert "planted" not in found[0].message + found[0].remedy


def test_two_plans_of_a_tuning_job_are_the_same_request(plan_of: Plan) -> None:
    one, other = (plan_of(unique=unique).request for unique in ("0aaaa", "0bbbb"))
    assert request_diff(one, other) == []
    assert request_diff(one, plan_of(tuning={"parallel": 2}).request) != []


def test_metrics_are_sent_of_a_single_job_too(write_job: Callable[..., Path]) -> None:
    loaded = load_job(write_job(metrics={"loss": "loss=([0-9.]+)"}))
    plan = plan_job(
        loaded.spec,
        None,
        unique="0unique",
        source=source_of(loaded.spec, loaded.file.parent),
        session_region="us-west-2",
        today=date(2026, 11, 22),
    )
    assert (plan.operation, plan.view.training) == ("CreateTrainingJob", plan.request)
    definitions = plan.request["AlgorithmSpecification"]["MetricDefinitions"]
    assert definitions == [{"Name": "loss", "Regex": "loss=([0-9.]+)"}]


def test_folders_are_paths_in_a_tuning_job(plan_of: Plan) -> None:
    plan = plan_of(hyperparameters={"out": "${SM_MODEL_DIR}/a"}, environment={"A": "${SM_OUTPUT_DATA_DIR}"})
    definition = plan.request["TrainingJobDefinition"]
    assert definition["StaticHyperParameters"]["out"] == '"/opt/ml/model/a"'
    assert definition["Environment"]["A"] == "/opt/ml/output/data"
