"""The environment of the script: what SageMaker's own launchers set, and what only the container knows.

Nothing that is already set is overwritten; PYTHONPATH and PATH alone are extended.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from slipway.container import Container
from slipway.ranks.heartbeat import STATE_VARIABLE
from slipway.rendezvous import Rendezvous
from slipway.sagemaker_variables import sagemaker_variables
from slipway.task import Task

LOG_LINE_PREFIX = "[rank${rank}]:"
"""Marks each line with the global rank."""

MARK_VARIABLE = "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"
"""Holds the mark of each line, in torchrun's notation (PyTorch documentation, torchrun)."""


def script_environment(
    task: Task,
    container: Container,
    existing: Mapping[str, str],
    *,
    archive: Path,
    rendezvous: Rendezvous,
    arguments: Sequence[str],
) -> dict[str, str]:
    """The whole environment of the script's processes.

    `existing` is the container's own environment and wins; `archive` is what this package was loaded
    from, put on PYTHONPATH so that scripts may import it; this interpreter's folder is first on PATH;
    `arguments` are what the script is given.
    """
    derived = {
        **sagemaker_variables(task, container, rendezvous, existing, arguments),
        **_network(container, rendezvous),
        "PYTHONUNBUFFERED": "1",
        STATE_VARIABLE: str(container.state),
        MARK_VARIABLE: LOG_LINE_PREFIX,
    }
    paths = [str(archive), str(container.code), existing.get("PYTHONPATH", "")]
    # Shell scripts call `python` and `accelerate`: those of the interpreter that runs the boot.
    programs = [str(Path(sys.executable).parent), existing.get("PATH", os.defpath)]
    return {
        **derived,
        **existing,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PATH": os.pathsep.join(programs),
    }


def make_folders(environment: Mapping[str, str]) -> None:
    """Create the folders that scripts and PyTorch's flight recorder expect to find."""
    folders = [environment[name] for name in ("SM_MODEL_DIR", "SM_OUTPUT_DATA_DIR", "SLIPWAY_CHECKPOINT_DIR")]
    # The recorder opens `<prefix><rank>` and writes nothing where the folder is missing.
    dumps = environment.get("TORCH_FR_DUMP_TEMP_FILE") or environment.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    folders += [str(Path(dumps).parent)] if dumps else []
    for folder in folders:
        Path(folder).mkdir(parents=True, exist_ok=True)


def _network(container: Container, rendezvous: Rendezvous) -> dict[str, str]:
    variables = {"MASTER_ADDR": rendezvous.address, "MASTER_PORT": str(rendezvous.port)}
    if container.interface:
        # Without it NCCL and gloo take the first interface they find, which other hosts may not reach.
        variables["NCCL_SOCKET_IFNAME"] = container.interface
        variables["GLOO_SOCKET_IFNAME"] = container.interface
    return variables
