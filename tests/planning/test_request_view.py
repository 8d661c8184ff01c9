"""What a request says, under the launcher's names; and that nobody else reads one by hand."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.planning.request_view import (
    FileSystemChannel,
    RequestView,
    S3Channel,
    Search,
    SearchedParameter,
)

LAUNCHER = Path(__file__).parents[2] / "launcher"
HAND_READ = {"ResourceConfig", "CheckpointConfig", "InputDataConfig", "VpcConfig", "StoppingCondition"}
WRITERS = {
    "planning/request.py",  # builds requests, and has the table of the fields that their parts come from
    "planning/finished_request.py",  # rewrites an earlier job's
    "planning/next_attempt.py",  # cuts one to what is left of its budget
    "backends/sagemaker/backend.py",  # sends UpdateTrainingJob
}
READERS = {
    "planning/request_view.py",
    "account/facts.py",  # reads what Search answers, in a room below planning
    "drafts/training_job.py",  # says of each field of a request whether a job file has words for it
}


def s3_channel(name: str, uri: str, **more: Any) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}, **more}


REQUESTS = yaml.safe_load(Path(__file__).with_name("request_view.yaml").read_text("utf-8"))
TRAINING, REQUEST, TUNING = list(REQUESTS.values())[:3]
OF_EACH_JOB = [pytest.param(REQUESTS[name], id=name) for name in REQUESTS if name != "training"]


@pytest.mark.parametrize("request_", OF_EACH_JOB)
def test_hosts_and_limits_are_those_of_each_training_job(request_: dict[str, Any]) -> None:
    view = RequestView(request_)
    assert (view.instance_type, view.hosts, view.processes_per_host) == ("ml.p4d.24xlarge", 2, 8)
    assert (view.keep_alive_seconds, view.training_plan) == (600, "plan-1")
    assert (view.max_runtime_seconds, view.max_wait_seconds, view.max_retries) == (3600, 7200, 3)
    assert view.is_spot


@pytest.mark.parametrize("request_", OF_EACH_JOB)
def test_image_role_and_network_are_those_of_each_training_job(request_: dict[str, Any]) -> None:
    view = RequestView(request_)
    assert view.image == "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1"
    assert view.role_arn == "arn:aws:iam::123456789012:role/training"
    assert (view.subnet_ids, view.security_group_ids) == (("subnet-1", "subnet-2"), ("sg-1",))
    assert view.entrypoint[-1].endswith("/slipway.pyz")
    assert view.boot_options == {"--processes-per-host": "8", "--entry-point": "a.py"}
    assert view.arguments[-2:] == ("--lr", "1")
    assert (view.metrics, view.environment) == ({"loss": "loss=(.*)"}, {"NCCL_DEBUG": "WARN"})
    assert view.hyperparameters == {"lr": "0.1"}


@pytest.mark.parametrize("request_", OF_EACH_JOB)
def test_channels_and_places_are_those_of_each_training_job(request_: dict[str, Any]) -> None:
    view = RequestView(request_)
    train, corpus = (
        S3Channel("train", "s3://data/train", mode="FastFile"),
        FileSystemChannel("corpus", "fs-1", "/abcdefgh/corpus", "rw"),
    )
    assert view.channels == (train, S3Channel("code", "s3://code/1"), corpus)
    assert (view.inputs, view.s3_inputs, view.mounts) == ((train, corpus), (train,), (corpus,))
    assert (view.code_uri, view.code_archive) == ("s3://code/1", None)
    assert (view.output_uri, view.output_key, view.volume_key) == ("s3://output/", "key-1", "key-2")
    assert view.checkpoints.moved_by_service == view.checkpoints.prefix == "s3://checkpoints/digits-1"
    assert view.checkpoints.local_path == "/opt/ml/mine"


def test_name_and_tags_are_the_whole_requests() -> None:
    assert (RequestView(REQUEST).name, RequestView(REQUEST).tags) == ("digits-1", {"team": "vision"})
    assert (RequestView(TUNING).name, RequestView(TUNING).tags) == ("digits-2", {})
    assert RequestView(TRAINING).name is None


def test_a_search_is_a_tuning_jobs_alone() -> None:
    assert (RequestView(REQUEST).search, RequestView(REQUEST).jobs_at_once) == (None, 1)
    view = RequestView(TUNING)
    ranges = (
        SearchedParameter("lr", minimum="1e-5", maximum="0.01", scaling="Logarithmic"),
        SearchedParameter("optimizer", ('"adamw"', '"lion"')),
    )
    assert view.search == Search("Bayesian", "Minimize", "loss", 4, 20, None, ranges)
    assert (view.jobs_at_once, view.search.jobs) == (4, 20)


def test_a_grid_has_as_many_jobs_as_combinations() -> None:
    parameters = tuple(SearchedParameter(name, tuple("123")) for name in ("a", "b"))
    assert Search("Grid", "Minimize", "loss", 2, None, None, parameters).jobs == 9


def test_what_a_request_does_not_say_is_nothing() -> None:
    view = RequestView({})
    assert (view.name, view.instance_type, view.hosts, view.processes_per_host) == (None,) * 4
    assert (view.image, view.entrypoint, view.arguments, view.boot_options) == (None, (), (), {})
    assert (view.channels, view.code_uri, view.code_archive, view.output_uri) == ((), None, None, None)
    assert (view.subnet_ids, view.security_group_ids, view.tags, view.metrics) == ((), (), {}, {})
    assert (view.keep_alive_seconds, view.max_retries, view.is_spot) == (0, 0, False)
    assert (view.checkpoints.prefix, view.checkpoints.directory) == (None, None)
    with pytest.raises(KeyError):
        _ = view.role_arn


def test_what_the_service_assumes_is_read_as_if_it_were_said() -> None:
    view = RequestView({"InputDataConfig": [s3_channel("train", "s3://data")]})
    assert (view.max_runtime_seconds, view.checkpoints.local_path) == (86_400, "/opt/ml/checkpoints")
    assert view.channels == (S3Channel("train", "s3://data", "FullyReplicated", "File"),)


@pytest.mark.parametrize(
    ("resources", "types", "hosts"),
    [
        ({"InstanceCount": 2}, ("ml.a.xlarge", "ml.b.xlarge"), 2),
        ({"InstanceCount": 2, "SelectedInstanceType": "ml.b.xlarge"}, ("ml.b.xlarge",), 2),
        ({"SelectedInstanceType": "ml.b.xlarge", "SelectedInstanceCount": 4}, ("ml.b.xlarge",), 4),
        ({}, ("ml.a.xlarge", "ml.b.xlarge"), 3),
    ],
    ids=["not chosen yet", "chosen", "chosen with a count of its own", "counts of their own"],
)
def test_hosts_have_the_type_that_the_service_chose_or_may_choose(
    resources: dict[str, Any], types: tuple[str, ...], hosts: int
) -> None:
    preferences = [{"InstanceType": "ml.a.xlarge", "InstanceCount": 3}, {"InstanceType": "ml.b.xlarge"}]
    view = RequestView({"ResourceConfig": {"InstancePreferences": preferences, **resources}})
    assert (view.instance_types, view.instance_type, view.hosts) == (types, types[0], hosts)


def test_hosts_of_all_groups_are_counted() -> None:
    groups = [{"InstanceCount": 2, "InstanceType": "ml.c5.xlarge"}, {"InstanceCount": 3}]
    view = RequestView({"ResourceConfig": {"InstanceGroups": groups}})
    assert (view.hosts, view.instance_type) == (5, None)


def test_the_toolkits_processes_and_archive_are_hyperparameters() -> None:
    given = {
        "sagemaker_mpi_num_of_processes_per_host": "4",
        "sagemaker_submit_directory": '"s3://code/a.tar.gz"',
    }
    view = RequestView({"HyperParameters": given})
    assert (view.processes_per_host, view.code_archive) == (4, "s3://code/a.tar.gz")


@pytest.mark.parametrize(
    ("request_", "moved_by_service", "moved_by_script"),
    [
        ({"CheckpointConfig": {"S3Uri": "s3://a"}}, "s3://a", None),
        ({"Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://b"}}, None, "s3://b"),
        ({"Environment": {"SLIPWAY_CHECKPOINT_URI": ""}}, None, None),
    ],
)
def test_checkpoints_are_moved_by_the_service_or_by_the_script(
    request_: dict[str, Any], moved_by_service: str | None, moved_by_script: str | None
) -> None:
    places = RequestView(request_).checkpoints
    assert (places.moved_by_service, places.moved_by_script) == (moved_by_service, moved_by_script)
    assert places.prefix == (moved_by_service or moved_by_script)


def test_a_request_is_read_in_one_place() -> None:
    """Whoever wants to know something of a job asks the view; the keys of the API stand nowhere else."""
    files = {file.relative_to(LAUNCHER).as_posix(): file for file in LAUNCHER.rglob("*.py")}
    naming = {name for name, file in files.items() if HAND_READ & keys_in(file)}
    assert naming == READERS | WRITERS


def keys_in(file: Path) -> set[Any]:
    """The texts that are used as a key or a value, but for docstrings and comments."""
    tree = ast.parse(file.read_text("utf-8"))
    names = {node.arg for node in ast.walk(tree) if isinstance(node, ast.keyword)}
    return names | {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("count", ["²", "9" * 5000, "", "-1", "eight"])
def test_a_number_of_processes_that_is_none_is_not_known(count: str) -> None:
    view = RequestView({"HyperParameters": {"sagemaker_mpi_num_of_processes_per_host": count}})
    assert view.processes_per_host is None
