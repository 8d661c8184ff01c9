"""The plan's requests beside those of the SageMaker Python SDK, version 3, for what it still starts.

The SDK's ModelTrainer knows torchrun and SMP version 2. Its request is caught on its way out, so the
comparison is with what would be sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from moto import mock_aws

from launcher.planning.training_plan import TrainingPlan
from tests.planning.comparison import differences, plan_of

JOBS = yaml.safe_load(Path(__file__).with_name("sdk_jobs.yaml").read_text("utf-8"))
MLFLOW = "arn:aws:sagemaker:us-west-2:111122223333:mlflow-tracking-server/team"

TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {
        "lr": {"min": 1e-5, "max": 0.1, "scaling": "logarithmic"},
        "batch_size": {"min": 8, "max": 64, "type": "integer"},
        "optimizer": ["adamw", "lion"],
    },
    "max_jobs": 20,
    "parallel": 4,
    "early_stopping": True,
}

CHANNEL = "DataSource.S3DataSource"
EXPECTED = {
    "AlgorithmSpecification.ContainerEntrypoint": "the boot, not a shell script",
    "AlgorithmSpecification.ContainerArguments": "as above: strategy, processes and script as words",
    "AlgorithmSpecification.EnableSageMakerMetricsTimeSeries": "the service's own metrics, as SDK version 2",
    "CheckpointConfig.S3Uri": "the prefix ends in the job's own name, so no two jobs share one",
    "Environment": "the planned settings beside the user's; the SDK's driver sets its own in the container",
    f"InputDataConfig.code.{CHANNEL}.S3Uri": "names of the launcher's own",
    "InputDataConfig.code.InputMode": "File is TrainingInputMode already",
    "InputDataConfig.train.InputMode": "as above",
    "InputDataConfig.sm_drivers.ChannelName": "the boot is one file and comes with the code",
    "InputDataConfig.sm_drivers.InputMode": "as above",
    f"InputDataConfig.sm_drivers.{CHANNEL}.S3DataDistributionType": "as above",
    f"InputDataConfig.sm_drivers.{CHANNEL}.S3DataType": "as above",
    f"InputDataConfig.sm_drivers.{CHANNEL}.S3Uri": "as above",
    "OutputDataConfig.CompressionType": "GZIP is the API's default",
    "ProfilerConfig.DisableProfiler": "the SDK leaves the service's default, a profiler on every host",
    "TrainingJobName": "time and a random part; the SDK's seconds alone may meet another job's",
}
"""Every difference, with what makes ours the better one."""


@pytest.fixture
def sent_by_the_sdk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """What ModelTrainer sends for a job: AWS is moto, and the request is noted on its way."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    from sagemaker.core.helper.session_helper import Session
    from sagemaker.core.shapes import Tag
    from sagemaker.train import ModelTrainer, configs, distributed, model_trainer

    # It would ask IAM to simulate the role's policies, which moto cannot.
    monkeypatch.setattr(model_trainer.TrainDefaults, "get_role", lambda role, sagemaker_session: role)
    (tmp_path / "train.py").touch()

    def sent(job: dict[str, Any], image: str) -> dict[str, Any]:
        parameters = job["distribution"].get("options", {}).get("parameters")
        trainer = ModelTrainer(
            training_image=image,
            role=job["role_arn"],
            base_job_name=job["name"],
            sagemaker_session=session,
            source_code=configs.SourceCode(source_dir=str(tmp_path), entry_script=job["code"]["entry_point"]),
            compute=configs.Compute(**_compute(job["resources"])),
            networking=configs.Networking(**_networking(job["network"])) if "network" in job else None,
            distributed=distributed.Torchrun(
                process_count_per_node=job["distribution"]["processes_per_host"],
                smp=distributed.SMP(**parameters) if parameters else None,
            ),
            hyperparameters=job["hyperparameters"],
            environment=dict(job["environment"]),
            output_data_config=configs.OutputDataConfig(s3_output_path=f"{job['output']['s3_uri']}/"),
            checkpoint_config=configs.CheckpointConfig(
                s3_uri=job["checkpoint"]["s3_uri"], local_path="/opt/ml/checkpoints"
            ),
            stopping_condition=configs.StoppingCondition(max_runtime_in_seconds=86_400),
            tags=[Tag(key=key, value=value) for key, value in job["tags"].items()],
        )
        if job["resources"].get("infra_check"):
            trainer.with_infra_check_config()
        if job.get("debug", {}).get("remote"):
            trainer.with_remote_debug_config(configs.RemoteDebugConfig(enable_remote_debug=True))
        channels = [
            configs.InputData(channel_name=name, data_source=at) for name, at in job["inputs"].items()
        ]
        trainer.train(channels, wait=False, logs=False)
        (request,) = requests
        return request

    with mock_aws():
        requests: list[dict[str, Any]] = []
        boto_session = boto3.Session(region_name="us-west-2")
        boto_session.events.register(
            "provide-client-params.sagemaker.CreateTrainingJob",
            lambda params, **_: requests.append(json.loads(json.dumps(params))),
        )
        boto_session.client("s3").create_bucket(
            Bucket="out-bucket", CreateBucketConfiguration={"LocationConstraint": "us-west-2"}
        )
        session = Session(
            boto_session=boto_session, default_bucket="out-bucket", sagemaker_config={"SchemaVersion": "1.0"}
        )
        yield sent


def _compute(resources: dict[str, Any]) -> dict[str, Any]:
    """The resources of a job file in the words of the SDK's Compute."""
    from sagemaker.core import shapes

    given = {"instance_count": resources["instance_count"]}
    types = [resources["instance_type"], *resources.get("instance_types", ())]
    if len(types) == 1:
        given["instance_type"] = types[0]
    else:
        given["instance_preferences"] = [shapes.InstancePreference(instance_type=each) for each in types]
    if "placement" in resources:
        placement = resources["placement"]
        given["instance_placement_config"] = shapes.InstancePlacementConfig(
            enable_multiple_jobs=placement["share"],
            placement_specifications=[
                shapes.PlacementSpecification(
                    instance_count=each["instance_count"], ultra_server_id=each["ultra_server"]
                )
                for each in placement["together"]
            ],
        )
    return given


def _networking(network: dict[str, Any]) -> dict[str, Any]:
    return {
        "subnets": network["subnets"],
        "security_group_ids": network["security_group_ids"],
        "enable_network_isolation": network.get("isolation"),
        "enable_inter_container_traffic_encryption": network.get("encryption"),
    }


@pytest.mark.few_cases("torchrun")
@pytest.mark.parametrize("name", JOBS)
def test_the_request_differs_from_model_trainers_only_where_it_is_better(
    name: str, sent_by_the_sdk: Callable[..., Any]
) -> None:
    plan = plan_of(JOBS[name])
    assert not plan.refused, plan.findings
    image = plan.request["AlgorithmSpecification"]["TrainingImage"]
    found = differences(plan.request, sent_by_the_sdk(JOBS[name], image))
    assert {path: found[path] for path in found if path not in EXPECTED} == {}
    assert [path for path in EXPECTED if path not in found] == []


def given_back(plan: TrainingPlan, kind: str) -> dict[str, tuple[Any, Any]]:
    """What the SDK's typed shape of a resource gives back otherwise than the plan's request has it."""
    from sagemaker.core import resources
    from sagemaker.core.utils.code_injection.codec import pascal_to_snake, transform
    from sagemaker.core.utils.utils import serialize

    assert not plan.refused and plan.request is not None, plan.findings
    described = {key: value for key, value in plan.request.items() if key != "Tags"}
    shape = getattr(resources, kind)(**transform(described, f"Describe{kind}Response"))
    returned = {key: serialize(getattr(shape, pascal_to_snake(key))) for key in described}
    return differences(described, returned)


SPOT = {"resources": {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}, "limits": {"max_retries": 2}}
COMPILED = {"framework": {"version": "1.13.1"}, "distribution": {"strategy": "torch_xla"}}
SMP1 = {"version": 1, "parameters": {"partitions": 2, "ddp": True}}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="torchrun"),
        pytest.param(SPOT, id="spot"),
        pytest.param({"debugger": True}, id="debugger"),
        pytest.param(
            {
                **{name: JOBS["options"][name] for name in ("resources", "network", "debug")},
                "mlflow": {"arn": MLFLOW, "experiment": "e", "run": "r"},
            },
            id="options",
        ),
        pytest.param({"framework": {"version": "2.0.1"}, "distribution": {"strategy": "smddp"}}, id="smddp"),
        pytest.param(
            {"framework": {"version": "1.13.1"}, "distribution": {"strategy": "smp", "options": SMP1}},
            id="smp",
        ),
        pytest.param(COMPILED, id="torch_xla"),
    ],
)
def test_the_sdks_typed_shapes_take_the_request_and_give_it_back(changes: dict[str, Any]) -> None:
    job = {**JOBS["torchrun"], "hyperparameters": {"lr": 0.1, "epochs": 3}, **changes}
    found = given_back(plan_of(job), "TrainingJob")
    # Serializing, the SDK leaves out what is false or empty.
    assert {path: ours for path, (ours, _) in found.items() if ours} == {}
    assert found.keys() <= {"DebugHookConfig.CollectionConfigurations", "ProfilerConfig.DisableProfiler"}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="torchrun"),
        pytest.param(SPOT, id="spot"),
        pytest.param({"framework": {"version": "2.2.0"}, "distribution": {"strategy": "smddp"}}, id="smddp"),
        pytest.param(COMPILED, id="torch_xla"),
    ],
)
def test_the_sdks_typed_shapes_take_a_tuning_request_and_give_it_back(changes: dict[str, Any]) -> None:
    job = {**JOBS["torchrun"], "hyperparameters": {"epochs": 3}, "checkpoint": None, "tuning": TUNING}
    assert given_back(plan_of({**job, **changes}), "HyperParameterTuningJob") == {}
