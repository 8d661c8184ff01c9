"""What SageMaker tells a container: its config files and folders, as plain data.

Formats: Amazon SageMaker developer guide, "How Amazon SageMaker Provides Training Information".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEFAULT_ROOT = "/opt/ml"


@dataclass(frozen=True)
class Container:
    """One host of a training job, as its config files describe it.

    `root` is /opt/ml, or what stands for it; `hosts` are in natural order (algo-10 after algo-2), so
    that the same host is first everywhere; `interface` is the network interface that reaches them.
    """

    root: Path
    hosts: tuple[str, ...]
    current_host: str
    instance_type: str
    interface: str | None
    hyperparameters: Mapping[str, str]
    input_data_config: Mapping[str, Any]
    resource_config: Mapping[str, Any]

    @property
    def node_rank(self) -> int:
        """The place of this host among the hosts, from 0."""
        return self.hosts.index(self.current_host)

    @property
    def code(self) -> Path:
        """Where the user's source is unpacked, and the working directory of the script."""
        return self.root / "code"

    @property
    def input_data(self) -> Path:
        """The parent of the channels' folders."""
        return self.root / "input" / "data"

    @property
    def output_data(self) -> Path:
        """What the service keeps after the job, whether it failed or not."""
        return self.root / "output" / "data"

    @property
    def state(self) -> Path:
        """What this host knows of the job while it runs; nothing of it is kept."""
        return self.root / "slipway"

    @property
    def logs(self) -> Path:
        """The output and the error files of this host's ranks; named by host, as all hosts share a bucket."""
        return self.output_data / "slipway" / self.current_host

    @property
    def failure_file(self) -> Path:
        """What the service puts into FailureReason."""
        return self.root / "output" / "failure"


def read_container(root: Path) -> Container:
    """Read the config files below `root`.

    Raises OSError or ValueError where the resource config is missing or not JSON. Hyperparameters
    and channels may be missing: the service leaves the files out of a job that has none.
    """
    config = root / "input" / "config"
    resources = json.loads((config / "resourceconfig.json").read_text(encoding="utf-8"))
    return Container(
        root=root,
        hosts=tuple(sorted(resources["hosts"], key=natural_order)),
        current_host=resources["current_host"],
        instance_type=resources.get("current_instance_type", ""),
        interface=resources.get("network_interface_name"),
        hyperparameters=_optional(config / "hyperparameters.json"),
        input_data_config=_optional(config / "inputdataconfig.json"),
        resource_config=resources,
    )


def natural_order(host: str) -> list[tuple[int, str]]:
    """A sort key that orders numbers by their value: algo-2 before algo-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", host) if part]


def _optional(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) or {} if file.exists() else {}
