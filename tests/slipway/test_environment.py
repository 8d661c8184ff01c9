"""The environment of the script."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from slipway.container import Container
from slipway.environment import make_folders, script_environment
from slipway.rendezvous import Rendezvous, find_rendezvous
from slipway.task import Task

CONTAINER = Container(
    root=Path("/opt/ml"),
    hosts=("algo-1", "algo-2"),
    current_host="algo-2",
    instance_type="ml.m5.xlarge",
    interface="eth0",
    hyperparameters={"lr": "0.1", "batch-size": "64", "name": "x"},
    input_data_config={"train": {}, "my-data": {}, "code": {}},
    resource_config={"hosts": ["algo-1", "algo-2"]},
)


TASK = Task("torchrun", 2, entry_point="train.py")


def environment(existing: dict[str, str] | None = None, container: Container = CONTAINER) -> dict[str, str]:
    return script_environment(
        TASK,
        container,
        {"CUDA_VISIBLE_DEVICES": "0,1", **(existing or {})},
        archive=Path("/opt/ml/input/data/code/slipway.pyz"),
        rendezvous=Rendezvous("algo-1", 7777),
        arguments=["--lr", "0.1"],
    )


def test_scripts_find_the_variables_of_the_toolkit() -> None:
    found = environment()
    assert json.loads(found["SM_HOSTS"]) == ["algo-1", "algo-2"]
    assert found["SM_CURRENT_HOST"] == "algo-2"
    assert found["SM_NUM_GPUS"] == "2"
    assert found["SM_CHANNEL_TRAIN"] == "/opt/ml/input/data/train"
    assert found["SM_CHANNEL_MY_DATA"] == "/opt/ml/input/data/my-data"
    assert found["SM_CHANNEL_MY-DATA"] == found["SM_CHANNEL_MY_DATA"]
    assert json.loads(found["SM_CHANNELS"]) == ["train", "my-data"]
    assert found["SM_MODEL_DIR"] == "/opt/ml/model"
    assert found["SM_OUTPUT_DATA_DIR"] == "/opt/ml/output/data"
    assert json.loads(found["SM_HPS"]) == {"lr": 0.1, "batch-size": 64, "name": "x"}
    assert found["SM_HP_BATCH_SIZE"] == "64"
    assert found["SLIPWAY_CHECKPOINT_DIR"] == "/opt/ml/checkpoints"


def test_the_interface_of_the_container_is_used() -> None:
    found = environment()
    assert found["NCCL_SOCKET_IFNAME"] == found["GLOO_SOCKET_IFNAME"] == "eth0"


def test_no_interface_is_invented() -> None:
    found = environment(container=replace(CONTAINER, interface=None))
    assert "NCCL_SOCKET_IFNAME" not in found


@pytest.mark.parametrize(
    "name",
    ["NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "SM_MODEL_DIR", "SLIPWAY_CHECKPOINT_DIR", "PYTHONUNBUFFERED",
     "MASTER_PORT", "SM_HP_LR", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"],
)  # fmt: skip
def test_nothing_that_is_set_is_overwritten(name: str) -> None:
    assert environment({name: "the user's"})[name] == "the user's"


def test_scripts_may_import_the_package_and_their_own_modules() -> None:
    found = environment({"PYTHONPATH": "/mine"})["PYTHONPATH"]
    assert found.split(os.pathsep) == ["/opt/ml/input/data/code/slipway.pyz", "/opt/ml/code", "/mine"]


def test_shell_scripts_find_the_programs_of_this_interpreter_first() -> None:
    found = environment({"PATH": "/usr/bin:/bin"})["PATH"]
    assert found.split(os.pathsep) == [str(Path(sys.executable).parent), "/usr/bin", "/bin"]


def test_the_flight_recorder_finds_its_folder(tmp_path: Path) -> None:
    container = replace(CONTAINER, root=tmp_path)
    dumps = tmp_path / "output" / "data" / "flight_recorder" / "rank_"
    make_folders(environment({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(dumps)}, container))
    assert dumps.parent.is_dir()
    assert (tmp_path / "model").is_dir()
    assert (tmp_path / "checkpoints").is_dir()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Rendezvous("algo-1", 7777)),
        ({"MASTER_PORT": "29500"}, Rendezvous("algo-1", 29500)),
        ({"MASTER_PORT": "29500", "SLIPWAY_RENDEZVOUS": "127.0.0.1:4000"}, Rendezvous("127.0.0.1", 4000)),
    ],
)
def test_ranks_meet_on_the_first_host(variables: dict[str, str], expected: Rendezvous) -> None:
    assert find_rendezvous(CONTAINER, variables) == expected
