"""From a job and a cluster to the request, also where the service chooses among several instance types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.validate import ParamValidator

from launcher.cluster.manifest import Cluster
from launcher.failure_modes.model import Severity
from launcher.jobs.load_job import load_job
from launcher.planning.job_cost import cost_in_words, estimate_cost
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import source_of
from tests.planning.test_request import JOB, TUNING, plan

WriteJob = Callable[..., Path]


@pytest.fixture
def plan_of(write_job: WriteJob) -> Callable[..., TrainingPlan]:
    def plan(
        cluster: dict[str, Any] | None = None,
        unique: str = "0unique",
        cluster_name: str | None = None,
        **changes: Any,
    ) -> TrainingPlan:
        loaded = load_job(write_job(cluster=cluster_name, **changes))
        assert loaded.spec is not None, loaded.findings
        return plan_job(
            loaded.spec,
            None if cluster is None else Cluster.model_validate(cluster),
            unique=unique,
            source=source_of(loaded.spec, loaded.file.parent),
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )

    return plan


def assert_the_api_model_accepts(request: dict[str, Any]) -> None:
    model = botocore.session.get_session().get_service_model("sagemaker")
    report = ParamValidator().validate(request, model.operation_model("CreateTrainingJob").input_shape)
    assert not report.has_errors(), report.generate_report()


def test_a_job_on_a_cluster_goes_where_the_cluster_is(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    request = plan_of(manifest).request
    assert_the_api_model_accepts(request)
    assert request["RoleArn"] == manifest["role_arn"]
    assert request["VpcConfig"] == {
        "Subnets": ["subnet-0123456789abcdef0"],
        "SecurityGroupIds": ["sg-0123456789abcdef0"],
    }
    assert request["CheckpointConfig"]["S3Uri"] == "s3://dev-checkpoints/digits-0unique"
    assert request["OutputDataConfig"] == {"S3OutputPath": "s3://dev-output/"}


def test_without_a_cluster_placeholders_are_said_and_counted(plan_of: Callable[..., TrainingPlan]) -> None:
    plan = plan_of()
    assert plan.placeholders == ("role_arn", "bucket")
    assert "000000000000" in plan.request["RoleArn"]
    assert {finding.severity for finding in plan.findings} == {Severity.INFO}
    assert_the_api_model_accepts(plan.request)


def test_two_plans_of_a_job_differ_only_by_the_unique_part(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    one, other = (plan_of(manifest, unique=unique).request for unique in ("0aaaa", "0bbbb"))
    assert one != other
    assert str(one).replace("0aaaa", "U") == str(other).replace("0bbbb", "U")


def test_the_checkpoint_prefix_always_ends_in_the_jobs_own_name(plan_of: Callable[..., TrainingPlan]) -> None:
    request = plan_of(checkpoint={"s3_uri": "s3://mine/runs/"}).request
    assert request["CheckpointConfig"] == {
        "S3Uri": "s3://mine/runs/digits-0unique",
        "LocalPath": "/opt/ml/checkpoints",
    }


def test_the_boot_is_told_strategy_processes_script_and_arguments(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    code = {"source_dir": "src", "entry_point": "train.py", "arguments": ["--deep", "a b"]}
    algorithm = plan_of(code=code).request["AlgorithmSpecification"]
    assert algorithm["ContainerEntrypoint"] == ["python3", "/opt/ml/input/data/code/slipway.pyz"]
    assert algorithm["ContainerArguments"] == [
        "--strategy", "torchrun", "--processes-per-host", "8", "--entry-point", "train.py",
        "--gate", "on", "--watchdog-stall", "auto", "--watchdog-first-step", "1800", "--restarts", "0",
        "--", "--deep", "a b",
    ]  # fmt: skip


def test_processes_per_host_are_filled_in(plan_of: Callable[..., TrainingPlan]) -> None:
    assert plan_of().job["distribution"] == {
        "strategy": "torchrun",
        "processes_per_host": 8,
        "options": {},
    }


def test_the_users_environment_wins_over_the_planned_settings(plan_of: Callable[..., TrainingPlan]) -> None:
    environment = plan_of(environment={"NCCL_DEBUG": "TRACE"}).request["Environment"]
    assert environment["NCCL_DEBUG"] == "TRACE"
    assert environment["OMP_NUM_THREADS"] == "12"
    assert environment["TORCH_NCCL_TRACE_BUFFER_SIZE"] == "2000"


def test_hyperparameters_are_sent_as_written_and_structures_as_json(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    sent = plan_of(hyperparameters={"lr": 0.1, "name": "a b", "nested": {"a": [1]}, "on": True}).request
    assert sent["HyperParameters"] == {"lr": "0.1", "name": "a b", "nested": '{"a": [1]}', "on": "true"}


def test_a_lustre_input_is_mounted_below_the_mount_name(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    channel = plan_of(manifest, inputs={"corpus": {"lustre": "/train"}}).request["InputDataConfig"][0]
    source = channel["DataSource"]["FileSystemDataSource"]
    assert source["DirectoryPath"] == "/abcdefgh/train"
    assert (source["FileSystemType"], source["FileSystemAccessMode"]) == ("FSxLustre", "ro")


def test_a_job_that_mounts_lustre_keeps_to_the_zone_of_the_file_system(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    there = {"id": "subnet-0000000000000000b", "availability_zone": "us-west-2b"}
    manifest["subnets"].append(there)
    mounting = plan_of(manifest, inputs={"corpus": {"lustre": "/train"}}).request
    assert mounting["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]
    assert len(plan_of(manifest).request["VpcConfig"]["Subnets"]) == 2


@pytest.mark.parametrize(
    "mount",
    [
        pytest.param({"inputs": {"corpus": {"lustre": "/train"}}}, id="an input"),
        pytest.param({"checkpoint": {"lustre": "/checkpoints"}}, id="checkpoints"),
    ],
)
def test_a_job_keeps_its_subnets_where_none_is_in_the_zone_of_the_file_system(
    plan_of: Callable[..., TrainingPlan], manifest: dict, mount: dict
) -> None:
    manifest["lustre"]["availability_zone"] = "us-west-2c"
    request = plan_of(manifest, **mount).request
    assert request["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]


def test_a_checkpoint_path_of_ones_own_is_told_to_the_container(plan_of: Callable[..., TrainingPlan]) -> None:
    own = plan_of(checkpoint={"local_path": "/opt/ml/mine"}).request["Environment"]
    assert own["SLIPWAY_CHECKPOINT_DIR"] == "/opt/ml/mine"
    assert "SLIPWAY_CHECKPOINT_DIR" not in plan_of(checkpoint={}).request["Environment"]


def test_a_lustre_input_without_a_file_system_is_refused(plan_of: Callable[..., TrainingPlan]) -> None:
    plan = plan_of(inputs={"corpus": {"lustre": "/train"}})
    assert plan.request is None
    assert [f.code for f in plan.findings if f.severity is Severity.ERROR] == ["FSX003"]


def test_a_lustre_input_of_a_cluster_not_read_yet_has_a_placeholder(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    channel = plan_of(cluster_name="dev", inputs={"corpus": {"lustre": "/train"}}).request["InputDataConfig"][
        0
    ]
    assert channel["DataSource"]["FileSystemDataSource"]["DirectoryPath"] == "/placeholder/train"


def test_checkpoints_on_lustre_have_a_writable_channel_and_a_directory_of_the_job(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    plan = plan_of(manifest, checkpoint={"lustre": "/checkpoints"})
    assert_the_api_model_accepts(plan.request)
    assert not plan.refused
    assert "CheckpointConfig" not in plan.request
    channel = plan.request["InputDataConfig"][0]
    source = channel["DataSource"]["FileSystemDataSource"]
    assert (channel["ChannelName"], source["FileSystemAccessMode"]) == ("checkpoints", "rw")
    assert source["DirectoryPath"] == "/abcdefgh/checkpoints"
    place = "/opt/ml/input/data/checkpoints/digits-0unique"
    assert plan.request["Environment"]["SLIPWAY_CHECKPOINT_DIR"] == place
    (setting,) = [item for item in plan.settings if item.name == "SLIPWAY_CHECKPOINT_DIR"]
    assert "/checkpoints on the file system" in setting.reason


def test_a_place_for_checkpoints_of_ones_own_stands(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    mine = {"SLIPWAY_CHECKPOINT_DIR": "/opt/ml/input/data/checkpoints/shared"}
    plan = plan_of(manifest, checkpoint={"lustre": "/checkpoints"}, environment=mine)
    assert plan.request["Environment"]["SLIPWAY_CHECKPOINT_DIR"] == mine["SLIPWAY_CHECKPOINT_DIR"]


def test_a_job_with_checkpoints_on_lustre_keeps_to_its_zone(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    manifest["subnets"].append({"id": "subnet-0000000000000000b", "availability_zone": "us-west-2b"})
    request = plan_of(manifest, checkpoint={"lustre": "/checkpoints"}).request
    assert request["VpcConfig"]["Subnets"] == ["subnet-0123456789abcdef0"]


@pytest.mark.parametrize(
    ("cluster_name", "has_lustre", "found"),
    [
        pytest.param(None, None, ["FSX003"], id="no cluster"),
        pytest.param("dev", False, ["FSX003"], id="a cluster without a file system"),
        pytest.param("dev", True, [], id="a cluster with one"),
        pytest.param("dev", None, [], id="a cluster not read yet"),
    ],
)
def test_checkpoints_on_lustre_want_a_file_system(
    plan_of: Callable[..., TrainingPlan],
    manifest: dict,
    cluster_name: str | None,
    has_lustre: bool | None,
    found: list[str],
) -> None:
    manifest["lustre"] = manifest["lustre"] if has_lustre else None
    known = None if has_lustre is None else manifest
    plan = plan_of(known, cluster_name=cluster_name, checkpoint={"lustre": "/checkpoints"})
    assert [each.code for each in plan.findings if each.severity is Severity.ERROR] == found
    assert (plan.request is None) is bool(found)


@pytest.mark.parametrize(
    ("job", "s3_uri", "lustre", "by_service"),
    [
        pytest.param(
            {"checkpoint": {"s3_uri": "s3://mine/c"}}, "s3://mine/c/digits-0unique", None, True, id="to S3"
        ),
        pytest.param(
            {"checkpoint": {"s3_uri": "s3://mine/c", "sync": "slipway"}},
            "s3://mine/c/digits-0unique", None, False, id="to S3, by the script",
        ),
        pytest.param({"checkpoint": {"lustre": "/c"}}, None, "/c", False, id="to the file system"),
        pytest.param(
            {"cluster_name": "dev"}, "s3://placeholder/checkpoints/digits-0unique", None, True,
            id="by default on a cluster",
        ),
    ],
)  # fmt: skip
def test_the_plan_says_where_checkpoints_go_also_without_a_request(
    plan_of: Callable[..., TrainingPlan], job: dict, s3_uri: str | None, lustre: str | None, by_service: bool
) -> None:
    unusable = {"strategy": "torchrun", "options": {"unheard": 1}}
    for planned in (plan_of(**job), plan_of(**job, distribution=unusable)):
        kept = planned.checkpoints
        assert (kept.s3_uri, kept.lustre, kept.by_service) == (s3_uri, lustre, by_service)
    assert planned.request is None


def test_a_job_without_a_cluster_keeps_checkpoints_only_where_it_asks_for_them(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    assert plan_of().checkpoints is None


@pytest.mark.parametrize(
    ("strategy", "options", "with_boot"),
    [("torchrun", {}, True), ("none", {}, True), ("smp", {}, True), ("smp", {"version": 1}, False),
     ("smp", {"version": "1"}, False), ("mpi", {}, False), ("smddp", {}, False), ("torch_xla", {}, False)],
)  # fmt: skip
def test_the_plan_says_who_starts_the_script_also_without_a_request(
    plan_of: Callable[..., TrainingPlan], strategy: str, options: dict, with_boot: bool
) -> None:
    plan = plan_of(distribution={"strategy": strategy, "options": {**options, "unheard": 1}}, debugger=True)
    assert plan.request is None
    assert (plan.with_boot, plan.processes_per_host, plan.world_size) == (
        with_boot, 1 if strategy == "none" else 8, 2 if strategy == "none" else 16
    )  # fmt: skip
    assert plan.debugger.on is (strategy != "smp")


def test_spot_has_a_waiting_time_of_twice_the_runtime_unless_given(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    resources = {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}
    request = plan_of(resources=resources, limits={"max_runtime": "1h"}).request
    assert request["EnableManagedSpotTraining"] is True
    assert request["StoppingCondition"] == {"MaxRuntimeInSeconds": 3600, "MaxWaitTimeInSeconds": 7200}


def test_a_volume_key_is_left_out_where_the_type_has_local_disks(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    manifest["kms_key_arn"] = "arn:aws:kms:us-west-2:111122223333:key/k"
    disks = plan_of(manifest).request
    none = plan_of(manifest, resources={"instance_type": "ml.m5.xlarge"}).request
    assert "VolumeKmsKeyId" not in disks["ResourceConfig"]
    assert none["ResourceConfig"]["VolumeKmsKeyId"] == manifest["kms_key_arn"]
    assert disks["OutputDataConfig"]["KmsKeyId"] == manifest["kms_key_arn"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"framework": {"version": "9.9"}}, "IMG001"),
        ({"resources": {"instance_type": "ml.p9.48xlarge"}}, "DIST001"),
        ({"resources": {"instance_type": "ml.trn1.32xlarge"}}, "IMG001"),
        ({"framework": {"version": "1.11.0"}, "resources": {"instance_type": "ml.trn2.48xlarge"}}, "IMG001"),
        ({"distribution": {"strategy": "torchrun", "options": {"mpi_options": "-x A"}}}, "SPEC003"),
    ],
)
def test_what_cannot_be_planned_has_no_request_and_says_why(
    plan_of: Callable[..., TrainingPlan], changes: dict, code: str
) -> None:
    plan = plan_of(**changes)
    assert plan.request is None
    assert plan.refused
    assert code in [finding.code for finding in plan.findings if finding.severity is Severity.ERROR]


def test_a_combination_that_the_user_may_accept_keeps_its_request(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    plan = plan_of(distribution={"strategy": "smddp"})
    assert plan.refused
    assert [f.code for f in plan.findings if f.severity is Severity.ERROR] == ["DIST002"]
    assert_the_api_model_accepts(plan.request)


def test_a_version_without_an_image_is_said_also_where_the_strategys_objection_is_accepted(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    plan = plan_of(distribution={"strategy": "smp"}, framework={"version": "9.9"})
    assert [f.code for f in plan.findings if f.severity is Severity.ERROR] == ["DIST002", "IMG001"]


def test_a_neuron_job_gets_the_neuron_image(plan_of: Callable[..., TrainingPlan]) -> None:
    plan = plan_of(framework={"version": "1.11.0"}, resources={"instance_type": "ml.trn1.32xlarge"})
    image = plan.request["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("/pytorch-training-neuron:1.11.0-neuron-py38-sdk2.4.0-ubuntu20.04")
    assert plan.world_size == 32


@pytest.mark.parametrize("instance_type", ["ml.trn1.32xlarge", "ml.trn2.48xlarge"])
def test_trainium_of_both_generations_has_the_images_of_the_newest_neuron_sdk(
    plan_of: Callable[..., TrainingPlan], instance_type: str
) -> None:
    plan = plan_of(framework={"version": "2.9"}, resources={"instance_type": instance_type})
    image = plan.request["AlgorithmSpecification"]["TrainingImage"]
    assert image.endswith("/pytorch-training-neuronx:2.9.0-neuronx-py312-sdk2.30.0-ubuntu24.04")


def test_the_image_from_before_trainium2_names_those_since(plan_of: Callable[..., TrainingPlan]) -> None:
    plan = plan_of(framework={"version": "1.11.0"}, resources={"instance_type": "ml.trn2.48xlarge"})
    (found,) = (each for each in plan.findings if each.code == "IMG001")
    assert "not for Trainium2" in found.message
    assert "2.6.0 or 2.7.0 or 2.8.0 or 2.9.0" in found.remedy


@pytest.mark.parametrize("strategy", ["smddp", "mpi"])
def test_a_toolkit_strategy_uploads_what_its_toolkit_fetches(
    plan_of: Callable[..., TrainingPlan], strategy: str
) -> None:
    plan = plan_of(distribution={"strategy": strategy}, framework={"version": "2.0.1"})
    assert "ContainerEntrypoint" not in plan.request["AlgorithmSpecification"]
    assert "InputDataConfig" not in plan.request
    archive = f"{plan.package.s3_uri}/{plan.package.archive}"
    assert plan.request["HyperParameters"]["sagemaker_submit_directory"] == f'"{archive}"'
    assert (plan.package.archive, plan.package.with_boot) == ("sourcedir.tar.gz", False)


def test_smp_version_2_is_a_torchrun_to_the_boot(plan_of: Callable[..., TrainingPlan]) -> None:
    options = {"version": 2, "parameters": {"hybrid_shard_degree": 8}}
    plan = plan_of(distribution={"strategy": "smp", "options": options}, framework={"version": "2.5.1"})
    algorithm = plan.request["AlgorithmSpecification"]
    assert algorithm["ContainerArguments"][:4] == ["--strategy", "torchrun", "--processes-per-host", "8"]
    assert plan.request["HyperParameters"] == {"mp_parameters": '{"hybrid_shard_degree": 8}'}
    assert "smdistributed-modelparallel:2.5.1-gpu-py311-cu124" in algorithm["TrainingImage"]


def test_checkpoints_that_the_container_moves_are_not_the_services(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    request = plan_of(checkpoint={"s3_uri": "s3://mine/runs", "sync": "slipway"}).request
    assert "CheckpointConfig" not in request
    assert request["Environment"]["SLIPWAY_CHECKPOINT_URI"] == "s3://mine/runs/digits-0unique"
    arguments = request["AlgorithmSpecification"]["ContainerArguments"]
    assert arguments[arguments.index("--checkpoint-sync") + 1] == "slipway"


def test_checkpoints_that_the_service_moves_are_no_business_of_the_script(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    request = plan_of(checkpoint={"s3_uri": "s3://mine/runs"}).request
    assert request["CheckpointConfig"]["S3Uri"] == "s3://mine/runs/digits-0unique"
    assert "SLIPWAY_CHECKPOINT_URI" not in request["Environment"]
    assert "--checkpoint-sync" not in request["AlgorithmSpecification"]["ContainerArguments"]


def test_the_settings_carry_their_reasons_and_what_the_user_chose_instead(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    settings = {item.name: item for item in plan_of(environment={"NCCL_DEBUG": "TRACE"}).settings}
    assert settings["NCCL_DEBUG"].overridden_by == "NCCL_DEBUG"
    assert all(item.reason and item.sources for item in settings.values())


@pytest.mark.parametrize(
    ("distribution", "checkpoint", "on"),
    [
        ({"strategy": "torchrun"}, None, True),
        ({"strategy": "torchrun"}, {"s3_uri": "s3://mine/runs"}, False),
        ({"strategy": "smddp"}, None, True),
        ({"strategy": "smddp"}, {"s3_uri": "s3://mine/runs"}, False),
        ({"strategy": "smddp"}, {"s3_uri": "s3://mine/runs", "sync": "slipway"}, True),
        ({"strategy": "smp", "options": {"version": 2}}, None, False),
    ],
)
def test_debugger_is_sent_where_it_is_asked_for_and_does_no_harm(
    plan_of: Callable[..., TrainingPlan], distribution: dict, checkpoint: dict | None, on: bool
) -> None:
    request = plan_of(
        distribution=distribution, checkpoint=checkpoint, debugger=True, framework={"version": "2.2.0"}
    ).request
    assert ("DebugHookConfig" in request) is on
    assert request["ProfilerConfig"]["DisableProfiler"] is not on


def test_debugger_is_off_with_the_checkpoints_that_a_cluster_brings(
    plan_of: Callable[..., TrainingPlan], manifest: dict
) -> None:
    request = plan_of(
        manifest, distribution={"strategy": "smddp"}, debugger=True, framework={"version": "2.2.0"}
    ).request
    assert "CheckpointConfig" in request
    assert "DebugHookConfig" not in request


def test_what_the_api_model_refuses_of_the_whole_request_is_found(
    plan_of: Callable[..., TrainingPlan],
) -> None:
    plan = plan_of(environment={"LONG": "x" * 513})
    assert [(f.code, f.subject) for f in plan.findings if f.severity is Severity.ERROR] == [
        ("SPEC004", "environment.LONG")
    ]


P4D, P5, P5E, P5EN, G5 = (
    "ml.p4d.24xlarge",
    "ml.p5.48xlarge",
    "ml.p5e.48xlarge",
    "ml.p5en.48xlarge",
    "ml.g5.xlarge",
)


def chosen_from(*types: str, **fields: Any) -> TrainingPlan:
    """The plan of a job whose type the service chooses among these."""
    resources = {"instance_type": types[0], "instance_types": list(types[1:]), "instance_choice": "service"}
    resources |= fields.pop("resources", {})
    return plan(resources=resources, **fields)


def refusals(made: TrainingPlan) -> list[tuple[str, str | None, str]]:
    return [(each.code, each.subject, each.message) for each in made.findings if each.blocks]


def test_the_types_are_sent_in_order_with_one_count_for_all() -> None:
    made = chosen_from(P5, P5E, P5EN)
    assert refusals(made) == []
    resources = (made.request or {})["ResourceConfig"]
    assert resources["InstancePreferences"] == [{"InstanceType": each} for each in (P5, P5E, P5EN)]
    assert resources["InstanceCount"] == 2
    assert "InstanceType" not in resources


def test_all_else_is_the_request_of_the_first_type() -> None:
    made, alone = chosen_from(P5, P5E), plan(resources={"instance_type": P5})
    differs = {"ResourceConfig"}
    assert {k: v for k, v in (made.request or {}).items() if k not in differs} == {
        k: v for k, v in (alone.request or {}).items() if k not in differs
    }


def test_a_setting_that_differs_by_type_is_named_with_both_values() -> None:
    ((code, subject, message),) = refusals(chosen_from(P4D, P5))
    assert (code, subject) == ("SPEC003", "resources.instance_types.0")
    assert f"Environment.OMP_NUM_THREADS of the request is 12 on {P4D} and 24 on {P5}" in message


def test_a_setting_that_the_user_gives_for_all_types_differs_no_more() -> None:
    assert refusals(chosen_from(P4D, P5, environment={"OMP_NUM_THREADS": 12})) == []


def test_a_type_with_another_number_of_processes_is_refused() -> None:
    said = [message for _, _, message in refusals(chosen_from(P5, "ml.p5.4xlarge"))]
    assert any("AlgorithmSpecification.ContainerArguments" in message for message in said)


def test_a_type_without_efa_beside_one_with_it_is_refused_for_several_hosts() -> None:
    given = {"environment": {"OMP_NUM_THREADS": 8}, "distribution": {"processes_per_host": 8}}
    several = refusals(chosen_from(P4D, "ml.g5.48xlarge", "ml.p2.8xlarge", **given))
    assert any("ml.p2.8xlarge has none" in message for _, _, message in several)
    assert not any("ml.g5.48xlarge has none" in message for _, _, message in several)
    alone = refusals(chosen_from(P4D, "ml.p2.8xlarge", **given, resources={"instance_count": 1}))
    assert not any("has none" in message for _, _, message in alone)


def test_a_type_on_which_there_is_no_request_is_refused() -> None:
    said = refusals(chosen_from(P5, "ml.p9.48xlarge"))
    assert ("SPEC003", "resources.instance_types.0", "the job has no request on ml.p9.48xlarge") in said


def test_more_types_than_the_api_takes_are_refused_at_their_field() -> None:
    types = ("ml.g6.12xlarge", "ml.g6.24xlarge", "ml.g6.48xlarge", P5, P5E, P5EN)
    found = [each for each in chosen_from(*types).findings if each.code == "SPEC004"]
    assert [each.subject for each in found] == ["resources.instance_types"]
    assert "has 6 entries" in found[0].message


def test_tuning_jobs_do_not_choose() -> None:
    subjects = [subject for _, subject, _ in refusals(chosen_from(P5, P5E, tuning=TUNING))]
    assert "resources.instance_choice" in subjects


def test_the_cost_is_that_of_the_dearest_type() -> None:
    types = ("ml.g5.xlarge", "ml.g5.2xlarge")
    view = chosen_from(*types, environment={"OMP_NUM_THREADS": 4}).view
    dearest = plan(resources={"instance_type": types[1]}, environment={"OMP_NUM_THREADS": 4}).view
    assert view is not None and dearest is not None
    assert estimate_cost(view, "us-west-2") == estimate_cost(dearest, "us-west-2") is not None
    assert "the dearest of its types" in cost_in_words(view, "us-west-2")
    assert "dearest" not in cost_in_words(dearest, "us-west-2")


def test_the_cost_of_a_type_without_a_price_is_unknown() -> None:
    view = chosen_from("ml.g5.xlarge", "ml.p2.xlarge", environment={"OMP_NUM_THREADS": 4}).view
    assert view is not None
    assert "has no ml.p2.xlarge" in cost_in_words(view, "us-west-2")


@pytest.mark.parametrize("field", ["instance_choice", "instance_types"])
def test_the_launchers_own_choice_sends_one_type(field: str) -> None:
    resources = {"instance_types": [P5], "instance_choice": "launcher"}
    made = plan(resources={field: resources[field]})
    assert made.request == plan().request
    assert JOB["resources"]["instance_type"] == made.request["ResourceConfig"]["InstanceType"]
