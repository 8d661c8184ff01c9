"""What a test does on a cluster: job files and plans of scripts, and what became of runs."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from launcher.backends.interface import JobStatus, LogLine
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.backends.slurm.login_node import LoginNode
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare
from tests.backends.slurm.mini_cluster import PATIENCE_SECONDS, MiniCluster, until

WAITS = """
    import time
    print("waits", flush=True)
    time.sleep(600)
"""


@dataclass
class SlurmPlace:
    """What a test does: plans of scripts, the backend, and what became of runs.

    With a login node the backend and the job files go by that.
    """

    slurm: MiniCluster
    folder: Path
    shared: Path
    login: LoginNode | None = None
    backend: SlurmBackend = field(init=False)

    def __post_init__(self) -> None:
        commands = SlurmCommands(self.slurm.environment, self.login)
        self.backend = SlurmBackend(self.shared / "slipway", commands, login=self.login)

    def job(self, script: str, **more: Any) -> Path:
        """A job file for the script; `more` are fields beside or in place of the usual ones."""
        source = self.folder / "src"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text(textwrap.dedent(script))
        job = {
            "name": "digits",
            "code": {"source_dir": "src", "entry_point": "train.py"},
            "framework": {"name": "pytorch", "version": "2.8.0", "python": "py312"},
            "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 2},
            "distribution": {"strategy": "none"},
            "environment": {"GLOO_SOCKET_IFNAME": "lo"},
            "limits": {"max_runtime": "30m"},
            "backend": "slurm",
            "slurm": {
                **({} if self.login is None else {"host": self.login.host}),
                **{"partition": "train", "shared": str(self.shared), "python": sys.executable},
            },
            **more,
        }
        file = self.folder / "job.yaml"
        file.write_text(yaml.safe_dump(job))
        return file

    def plan(self, script: str, **more: Any) -> TrainingPlan:
        """Its plan, without errors."""
        plan = prepare(load_job(self.job(script, **more)), session_region=None)
        assert not plan.refused, [each.message for each in plan.findings]
        return plan

    def end_of(self, name: str) -> JobStatus:
        """The run's status once it is final."""

        def final() -> JobStatus | None:
            status = self.backend.describe(name)
            return status if status.state.is_final else None

        return until(final)

    def lines(self, name: str) -> list[LogLine]:
        """All that the run has printed."""
        found: list[LogLine] = []
        batch = self.backend.read_logs(name, {})
        while batch.lines:
            found += batch.lines
            batch = self.backend.read_logs(name, batch.cursor)
        return found

    def texts(self, name: str, host: str) -> list[str]:
        """What one host of it has printed."""
        return [line.text for line in self.lines(name) if line.host == host]

    def wait_for(self, name: str, text: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Until a line of the run has the text."""
        until(lambda: any(text in line.text for line in self.lines(name)), seconds)
