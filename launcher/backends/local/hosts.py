"""The hosts of a local job: where each has its folder, its log, and what stands for /opt/ml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from launcher.cluster.sagemaker_names import host_name

ROOT_VARIABLE = "SLIPWAY_ROOT"
"""The environment variable with a host's `root`, which the boot reads and all of its processes inherit."""


@dataclass(frozen=True, slots=True)
class Host:
    """One host of a local job: its folder, in it what stands for /opt/ml, and its log."""

    name: str
    folder: Path

    @property
    def job_folder(self) -> Path:
        """The folder of the job that the host belongs to."""
        return self.folder.parent.parent

    @property
    def root(self) -> Path:
        """The folder that stands for the container's /opt/ml."""
        return self.folder / "ml"

    @property
    def log(self) -> Path:
        """The file with what the host printed, both of its streams."""
        return self.folder / "log"

    @property
    def log_times(self) -> Path:
        """The file that says when the log had which size, for the times of its lines."""
        return self.folder / "log.times"

    @property
    def failure(self) -> Path:
        """The file with the boot's report of a failure; not there without one."""
        return self.root / "output" / "failure"


def hosts_of(folder: Path, count: int) -> list[Host]:
    """The hosts of the job in `folder`, named as SageMaker names them."""
    names = map(host_name, range(1, count + 1))
    return [Host(name, folder / "hosts" / name) for name in names]
