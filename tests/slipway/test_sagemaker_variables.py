"""The SM_* variables: those of the training toolkit and of the SDK's own drivers."""

from __future__ import annotations

import ast
import importlib.util
import json
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.container import Container
from slipway.rendezvous import Rendezvous
from slipway.sagemaker_variables import count_gpus, folders, sagemaker_variables
from slipway.task import Task

GROUPS = [{"instance_group_name": "workers", "instance_type": "ml.g5.xlarge", "hosts": ["algo-1", "algo-2"]}]
CONTAINER = Container(
    root=Path("/opt/ml"),
    hosts=("algo-1", "algo-2"),
    current_host="algo-2",
    instance_type="ml.g5.xlarge",
    interface="eth0",
    hyperparameters={"batch-size": "64", "e": "5"},
    input_data_config={"my-train": {"TrainingInputMode": "File"}, "code": {}},
    resource_config={
        "hosts": ["algo-1", "algo-2"],
        "current_group_name": "workers",
        "instance_groups": GROUPS,
    },
)

TOOLKIT = (
    "SM_CHANNELS", "SM_CURRENT_HOST", "SM_CURRENT_INSTANCE_GROUP", "SM_CURRENT_INSTANCE_GROUP_HOSTS",
    "SM_CURRENT_INSTANCE_TYPE", "SM_DISTRIBUTION_INSTANCE_GROUPS", "SM_FRAMEWORK_MODULE",
    "SM_FRAMEWORK_PARAMS", "SM_HOSTS", "SM_HPS", "SM_INPUT_CONFIG_DIR", "SM_INPUT_DATA_CONFIG",
    "SM_INPUT_DIR", "SM_INSTANCE_GROUPS", "SM_INSTANCE_GROUPS_DICT", "SM_IS_HETERO", "SM_LOG_LEVEL",
    "SM_MODEL_DIR", "SM_MODULE_DIR", "SM_MODULE_NAME", "SM_NETWORK_INTERFACE_NAME", "SM_NUM_CPUS",
    "SM_NUM_GPUS", "SM_NUM_NEURONS", "SM_OUTPUT_DATA_DIR", "SM_OUTPUT_DIR", "SM_OUTPUT_INTERMEDIATE_DIR",
    "SM_RESOURCE_CONFIG", "SM_TRAINING_ENV", "SM_USER_ARGS", "SM_USER_ENTRY_POINT",
)  # fmt: skip
"""aws/sagemaker-training-toolkit, environment.py, to_env_vars."""


def variables(task: Task | None = None, container: Container = CONTAINER, **existing: str) -> dict[str, str]:
    return sagemaker_variables(
        task or Task("torchrun", 1, entry_point="train.py"),
        container,
        Rendezvous("algo-1", 7777),
        {"CUDA_VISIBLE_DEVICES": "0", **existing},
        ["--lr", "0.1"],
    )


def drivers_names() -> set[str]:
    """The variables that the installed SDK's driver sets, read from its syntax tree."""
    found = importlib.util.find_spec("sagemaker.train")
    assert found is not None and found.submodule_search_locations
    file = Path(found.submodule_search_locations[0]) / "container_drivers" / "scripts" / "environment.py"
    texts = {
        node.value
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {text for text in texts if text.startswith("SM_") and text.isupper() and text[-1] != "_"}


def test_every_variable_of_the_toolkit_is_set() -> None:
    assert set(TOOLKIT) - variables().keys() == set()


def test_every_variable_of_the_sdks_driver_is_set_but_those_of_its_own_distribution() -> None:
    names = drivers_names()
    assert {"SM_HOST_COUNT", "SM_MASTER_PORT"} <= names
    assert names - variables().keys() == {"SM_DISTRIBUTED_CONFIG", "SM_DISTRIBUTED_DRIVER_DIR"}


def test_hosts_and_their_meeting_place_are_told() -> None:
    found = variables()
    assert (found["SM_MASTER_ADDR"], found["SM_MASTER_PORT"]) == ("algo-1", "7777")
    assert (found["SM_HOST_COUNT"], found["SM_CURRENT_HOST_RANK"]) == ("2", "1")
    assert found["SM_CURRENT_INSTANCE_GROUP"] == "workers"
    assert json.loads(found["SM_CURRENT_INSTANCE_GROUP_HOSTS"]) == ["algo-1", "algo-2"]
    assert json.loads(found["SM_INSTANCE_GROUPS_DICT"]) == {"workers": GROUPS[0]}
    assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == ["workers"]
    assert found["SM_IS_HETERO"] == "false"


def test_the_channel_of_the_code_is_no_channel_of_the_users() -> None:
    found = variables()
    assert "SM_CHANNEL_CODE" not in found
    assert json.loads(found["SM_CHANNELS"]) == ["my-train"]
    assert json.loads(found["SM_INPUT_DATA_CONFIG"]) == {"my-train": {"TrainingInputMode": "File"}}
    assert "code" not in json.loads(found["SM_TRAINING_ENV"])["channel_input_dirs"]


def test_names_with_hyphens_have_both_spellings() -> None:
    found = variables()
    assert found["SM_CHANNEL_MY-TRAIN"] == found["SM_CHANNEL_MY_TRAIN"] == "/opt/ml/input/data/my-train"
    assert found["SM_HP_BATCH-SIZE"] == found["SM_HP_BATCH_SIZE"] == "64"


def test_a_name_with_underscores_is_not_taken_by_one_with_hyphens() -> None:
    both = replace(CONTAINER, hyperparameters={"a_b": "1", "a-b": "2"})
    found = variables(container=both)
    assert (found["SM_HP_A_B"], found["SM_HP_A-B"]) == ("1", "2")


def test_the_whole_is_one_document() -> None:
    found = json.loads(variables(TRAINING_JOB_NAME="my-job")["SM_TRAINING_ENV"])
    assert found["job_name"] == "my-job"
    assert found["hyperparameters"] == {"batch-size": 64, "e": 5}
    assert found["model_dir"] == "/opt/ml/model"
    assert found["channel_input_dirs"] == {"my-train": "/opt/ml/input/data/my-train"}
    assert found["is_master"] is False
    assert found["user_entry_point"] == "train.py"
    assert found["module_name"] == "train"


@pytest.mark.parametrize(
    ("task", "entry_point", "module_name", "entry_script"),
    [
        (Task("none", 1, entry_point="run/train.sh"), "run/train.sh", "run/train.sh", "run/train.sh"),
        (Task("none", 1, module="pkg.train"), "-m pkg.train", "pkg.train", ""),
    ],
)
def test_what_is_started_is_named(task: Task, entry_point: str, module_name: str, entry_script: str) -> None:
    found = variables(task)
    assert found["SM_USER_ENTRY_POINT"] == entry_point
    assert found["SM_MODULE_NAME"] == module_name
    assert found["SM_ENTRY_SCRIPT"] == entry_script
    assert json.loads(found["SM_DISTRIBUTION_INSTANCE_GROUPS"]) == []


def test_the_checkpoints_folder_has_both_names() -> None:
    assert variables()["SM_CHECKPOINT_DIR"] == "/opt/ml/checkpoints"
    elsewhere = folders(CONTAINER, {"SLIPWAY_CHECKPOINT_DIR": "/opt/ml/input/data/checkpoints/job"})
    assert elsewhere["SM_CHECKPOINT_DIR"] == "/opt/ml/input/data/checkpoints/job"


@pytest.mark.parametrize(("visible", "expected"), [("", 0), ("3", 1), ("0, 1,GPU-abc", 3)])
def test_gpus_are_those_that_are_visible(visible: str, expected: int) -> None:
    assert count_gpus({"CUDA_VISIBLE_DEVICES": visible}) == expected


def test_neuron_cores_are_those_that_the_tool_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert variables()["SM_NUM_NEURONS"] == "0"
    tool = tmp_path / "neuron-ls"
    tool.write_text('#!/bin/sh\necho \'[{"neuron_device": 0, "nc_count": 2}, {"nc_count": 2}]\'\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert variables()["SM_NUM_NEURONS"] == "4"
