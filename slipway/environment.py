"""The environment of the script: what SageMaker's own toolkit sets, and what only the container knows.

Nothing that is already set is overwritten; PYTHONPATH alone is extended.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipway.container import Container
from slipway.rendezvous import Rendezvous

LOG_LINE_PREFIX = "[rank${rank}]:"
"""Marks each line with the global rank (PyTorch documentation, torchrun; since torch 2.2). Older
versions do not know it and print `[default0]:`, with the local rank."""


def script_environment(
    container: Container,
    existing: Mapping[str, str],
    *,
    archive: Path,
    rendezvous: Rendezvous,
    entry_point: str,
    arguments: list[str],
) -> dict[str, str]:
    """The whole environment of the script's processes.

    `existing` is the container's own environment and wins; `archive` is what this package was loaded
    from, put on PYTHONPATH so that scripts may import it.
    """
    derived = {
        **_toolkit(container, existing, entry_point, arguments),
        **_network(container, rendezvous),
        "SLIPWAY_CHECKPOINT_DIR": str(container.root / "checkpoints"),
        "PYTHONUNBUFFERED": "1",
        "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": LOG_LINE_PREFIX,
    }
    paths = [str(archive), str(container.code), existing.get("PYTHONPATH", "")]
    return {**derived, **existing, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}


def make_folders(environment: Mapping[str, str]) -> None:
    """Create the folders that scripts and PyTorch's flight recorder expect to find."""
    folders = [environment[name] for name in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SLIPWAY_CHECKPOINT_DIR")]
    # The recorder opens `<prefix><rank>` and writes nothing where the folder is missing.
    dumps = environment.get("TORCH_FR_DUMP_TEMP_FILE") or environment.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    folders += [str(Path(dumps).parent)] if dumps else []
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)


def count_gpus(existing: Mapping[str, str]) -> int:
    """The GPUs that this host's processes can use, without loading torch."""
    visible = existing.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([device for device in visible.split(",") if device.strip()])
    try:
        listing = subprocess.run(["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())


def _toolkit(
    container: Container, existing: Mapping[str, str], entry_point: str, arguments: list[str]
) -> dict[str, str]:
    """The SM_* variables, as in the README of aws/sagemaker-training-toolkit."""
    root, data = container.root, container.input_data
    values = {name: _decoded(text) for name, text in container.hyperparameters.items()}
    channels = {name: str(data / name) for name in container.input_data_config}
    variables: dict[str, Any] = {
        "SM_MODEL_DIR": str(root / "model"),
        "SM_INPUT_DIR": str(root / "input"),
        "SM_INPUT_DATA_DIR": str(data),
        "SM_INPUT_CONFIG_DIR": str(root / "input" / "config"),
        "SM_OUTPUT_DIR": str(root / "output"),
        "SM_OUTPUT_DATA_DIR": str(container.output_data),
        "SM_OUTPUT_INTERMEDIATE_DIR": str(root / "output" / "intermediate"),
        "SM_CHANNELS": list(channels),
        "SM_HPS": values,
        "SM_HOSTS": list(container.hosts),
        "SM_CURRENT_HOST": container.current_host,
        "SM_CURRENT_INSTANCE_TYPE": container.instance_type,
        "SM_NETWORK_INTERFACE_NAME": container.interface or "",
        "SM_NUM_CPUS": os.cpu_count() or 1,
        "SM_NUM_GPUS": count_gpus(existing),
        "SM_RESOURCE_CONFIG": container.resource_config,
        "SM_INPUT_DATA_CONFIG": container.input_data_config,
        "SM_MODULE_DIR": str(container.code),
        "SM_USER_ENTRY_POINT": entry_point,
        "SM_USER_ARGS": arguments,
        "SM_LOG_LEVEL": 20,
    }
    variables.update({f"SM_CHANNEL_{_upper(name)}": folder for name, folder in channels.items()})
    variables.update({f"SM_HP_{_upper(name)}": text for name, text in container.hyperparameters.items()})
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in variables.items()}


def _network(container: Container, rendezvous: Rendezvous) -> dict[str, str]:
    variables = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
    if container.interface:
        # Without it NCCL and gloo take the first interface they find, which other hosts may not reach.
        variables["NCCL_SOCKET_IFNAME"] = container.interface
        variables["GLOO_SOCKET_IFNAME"] = container.interface
    return variables


def _decoded(text: str) -> Any:
    """The number, boolean or structure that a hyperparameter spells, else its text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _upper(name: str) -> str:
    return name.replace("-", "_").upper()
