"""The SM_* variables by which scripts find what they need: those of SageMaker's training toolkit and SDK.

Sources: aws/sagemaker-training-toolkit, environment.py (to_env_vars and the dict of its properties, which is
SM_TRAINING_ENV); sagemaker-python-sdk 3, train/container_drivers/scripts/environment.py, which adds
SM_MASTER_ADDR, SM_HOST_COUNT and some more. Where the two differ in the spelling of a name, both are set.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from slipway.container import Container
from slipway.rendezvous import Rendezvous
from slipway.task import Task

OWN_CHANNEL = "code"
"""Holds the job's source and this package. It is none of the user's channels, so no script is told of it."""

_LOG_LEVEL = 20
"""Python's logging.INFO, the default of both."""


def folders(container: Container, existing: Mapping[str, str]) -> dict[str, str]:
    """The variables that name a folder of the container; what `existing` sets wins."""
    root, data = container.root, container.input_data
    checkpoints = existing.get("SLIPWAY_CHECKPOINT_DIR") or str(root / "checkpoints")
    found = {
        "SM_MODEL_DIR": str(root / "model"),
        "SM_INPUT_DIR": str(root / "input"),
        "SM_INPUT_DATA_DIR": str(data),
        "SM_INPUT_CONFIG_DIR": str(root / "input" / "config"),
        "SM_OUTPUT_DIR": str(root / "output"),
        "SM_OUTPUT_DATA_DIR": str(container.output_data),
        "SM_OUTPUT_INTERMEDIATE_DIR": str(root / "output" / "intermediate"),
        "SM_MODULE_DIR": str(container.code),
        "SM_SOURCE_DIR": str(container.code),
        "SM_CHECKPOINT_DIR": checkpoints,
        "SLIPWAY_CHECKPOINT_DIR": checkpoints,
        **_spelled("SM_CHANNEL_", {name: str(data / name) for name in _channels(container)}),
    }
    return {name: existing.get(name, folder) for name, folder in found.items()}


def sagemaker_variables(
    task: Task,
    container: Container,
    rendezvous: Rendezvous,
    existing: Mapping[str, str],
    arguments: Sequence[str],
) -> dict[str, str]:
    """All of them as texts: the folders, the hosts, the hyperparameters, and the whole as SM_TRAINING_ENV.

    `existing` is the container's own environment, `arguments` what the script is given.
    """
    values = {name: _decoded(text) for name, text in container.hyperparameters.items()}
    resources, module_name = container.resource_config, task.module or _without_suffix(task.name)
    groups = resources.get("instance_groups") or []
    group = resources.get("current_group_name", "homogeneousCluster")
    shared: dict[str, Any] = {
        "channel_input_dirs": {name: str(container.input_data / name) for name in _channels(container)},
        "current_host": container.current_host,
        "current_instance_group": group,
        "current_instance_group_hosts": _hosts_of(group, groups),
        "current_instance_type": container.instance_type,
        "distribution_instance_groups": [] if task.strategy == "none" else [group],
        "framework_module": existing.get("SAGEMAKER_TRAINING_MODULE", ""),
        "hosts": list(container.hosts),
        "input_data_config": _channels(container),
        "instance_groups": [each["instance_group_name"] for each in groups],
        "instance_groups_dict": {each["instance_group_name"]: each for each in groups},
        "is_hetero": len(groups) > 1,
        "log_level": _LOG_LEVEL,
        "master_addr": rendezvous.address,
        "master_port": rendezvous.port,
        "module_name": module_name,
        "network_interface_name": container.interface or "",
        "num_cpus": os.cpu_count() or 1,
        "num_gpus": count_gpus(existing),
        "num_neurons": _count_neurons(),
        "resource_config": resources,
        "user_entry_point": task.name,
    }
    places = folders(container, existing)
    channels = shared["channel_input_dirs"]
    training = {
        **shared,
        **{name[3:].lower(): place for name, place in places.items() if _is_the_toolkits(name)},
        "additional_framework_parameters": {},
        "hyperparameters": values,
        "is_master": container.node_rank == 0,
        "job_name": existing.get("TRAINING_JOB_NAME", ""),
        "master_hostname": container.hosts[0],
    }
    variables: dict[str, Any] = {
        **{f"SM_{name.upper()}": value for name, value in shared.items() if name != "channel_input_dirs"},
        **places,
        "SM_CHANNELS": list(channels),
        "SM_CURRENT_HOST_RANK": container.node_rank,
        "SM_ENTRY_SCRIPT": task.entry_point or "",
        "SM_FRAMEWORK_PARAMS": {},
        "SM_HOST_COUNT": len(container.hosts),
        "SM_HPS": values,
        "SM_OUTPUT_FAILURE": str(container.failure_file),
        "SM_TRAINING_ENV": training,
        "SM_USER_ARGS": list(arguments),
        **_spelled("SM_HP_", container.hyperparameters),
    }
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in variables.items()}


def count_gpus(existing: Mapping[str, str]) -> int:
    """The GPUs that this host's processes can use, without loading torch."""
    visible = existing.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    return sum(line.startswith("GPU ") for line in _output("nvidia-smi", "--list-gpus").splitlines())


def _count_neurons() -> int:
    """The Neuron cores of this host, as the SDK's driver counts them; 0 without Neuron's tools."""
    try:
        return sum(int(device.get("nc_count", 0)) for device in json.loads(_output("neuron-ls", "-j")))
    except (ValueError, TypeError, AttributeError):
        return 0


def _output(*command: str) -> str:
    """What a program prints; nothing where it is not there or does not answer within a minute."""
    try:
        return subprocess.run(list(command), capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def _channels(container: Container) -> dict[str, Any]:
    return {name: each for name, each in container.input_data_config.items() if name != OWN_CHANNEL}


def _spelled(prefix: str, values: Mapping[str, str]) -> dict[str, str]:
    """Each under its name as it is and, since no shell reads hyphens, with underscores."""
    underscored = {f"{prefix}{name.replace('-', '_').upper()}": value for name, value in values.items()}
    return {**underscored, **{f"{prefix}{name.upper()}": str(value) for name, value in values.items()}}


def _hosts_of(group: str, groups: Sequence[Mapping[str, Any]]) -> list[str]:
    return next((list(each["hosts"]) for each in groups if each["instance_group_name"] == group), [])


def _is_the_toolkits(folder: str) -> bool:
    return folder.startswith("SM_") and not folder.startswith("SM_CHANNEL_")


def _without_suffix(name: str) -> str:
    return name[:-3] if name.endswith(".py") else name


def _decoded(text: str) -> Any:
    """The number, boolean or structure that a hyperparameter spells, else its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text
