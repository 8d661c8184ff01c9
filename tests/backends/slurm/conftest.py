"""One real Slurm for all tests of this folder, and jobs for it."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from launcher.backends.interface import JobStatus, LogLine
from launcher.backends.slurm.backend import SlurmBackend
from launcher.backends.slurm.commands import SlurmCommands
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare
from tests.backends.slurm.mini_cluster import MiniCluster, mini_cluster, missing_programs, until


@pytest.fixture(scope="session")
def running_slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniCluster]:
    missing = missing_programs()
    if missing:
        pytest.skip(f"Slurm is not installed ({', '.join(missing)}): apt-get install slurm-wlm munge")
    if os.geteuid() != 0:
        pytest.skip("Slurm's nodes are started by root alone")
    # A short path: a socket's may have 107 characters.
    folder = tmp_path_factory.mktemp("slurm")
    with mini_cluster(folder) as cluster:
        yield cluster


@pytest.fixture
def slurm(running_slurm: MiniCluster) -> Iterator[MiniCluster]:
    """The cluster with all its nodes idle, before the test and after it."""
    running_slurm.ready()
    yield running_slurm
    for job_id in running_slurm.job_ids():
        if running_slurm.job_field(job_id, "JobState") not in ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"):
            running_slurm.call("scancel", job_id)


@dataclass
class Cluster:
    """What a test does: plans of scripts, the backend, and what became of runs."""

    slurm: MiniCluster
    folder: Path
    shared: Path
    backend: SlurmBackend = field(init=False)

    def __post_init__(self) -> None:
        self.backend = SlurmBackend(self.shared / "slipway", SlurmCommands(self.slurm.environment))

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
            "slurm": {"partition": "train", "shared": str(self.shared), "python": sys.executable},
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

    def wait_for(self, name: str, text: str) -> None:
        """Until a line of the run has the text."""
        until(lambda: any(text in line.text for line in self.lines(name)))


@pytest.fixture
def cluster(slurm: MiniCluster, tmp_path: Path) -> Cluster:
    shared = slurm.shared / tmp_path.name
    shared.mkdir()
    return Cluster(slurm, tmp_path, shared)
