"""The hosts of a local job: where each has its folder, its log, and what stands for /opt/ml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    """One host of a local job: its folder, in it what stands for /opt/ml, and its log."""

    name: str
    folder: Path

    @property
    def root(self) -> Path:
        """What stands for /opt/ml."""
        return self.folder / "ml"

    @property
    def log(self) -> Path:
        """What the host printed."""
        return self.folder / "log"

    @property
    def log_times(self) -> Path:
        """When the log had which size."""
        return self.folder / "log.times"

    @property
    def failure(self) -> Path:
        """The boot's report of a failure."""
        return self.root / "output" / "failure"


def hosts_of(folder: Path, count: int) -> list[Host]:
    """The hosts of the job in `folder`, named as SageMaker names them."""
    return [Host(f"algo-{number}", folder / "hosts" / f"algo-{number}") for number in range(1, count + 1)]
