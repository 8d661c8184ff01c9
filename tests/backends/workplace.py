"""A place for local jobs in tests: scripts, plans, and the processes that come of them."""

from __future__ import annotations

import textwrap
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from launcher.backends.interface import JobStatus, LogLine
from launcher.backends.local.backend import LocalBackend
from launcher.backends.local.job import Grace
from launcher.planning.training_plan import SourcePackage, TrainingPlan
from launcher.source.tree import read_source

MARK = "TEST_MARK"
PATIENCE_SECONDS = 90.0
SHORT = Grace(stop=3.0, peers=1.0, report=3.0)

WAIT = """
    import os, signal, sys, time
    from pathlib import Path

    shared = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])

    def wait_for(name):
        while not (shared / name).exists():
            time.sleep(0.02)

"""
"""The beginning of a script that talks with others through the shared checkpoint folder."""


def eventually(condition: Callable[[], Any]) -> Any:
    """The condition's first true value; fails when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError("waited in vain")


class Workplace:
    """A folder with a script, and the plans, jobs and processes that come of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.mark = uuid.uuid4().hex

    def plan(
        self,
        script: str,
        *,
        name: str = "job-1",
        hosts: int = 1,
        strategy: str = "none",
        processes: int = 1,
        environment: dict[str, str] | None = None,
        arguments: tuple[str, ...] = (),
        resume_from: str | None = None,
        options: tuple[str, ...] = (),
        **request: Any,
    ) -> TrainingPlan:
        source = self.folder / "src"
        source.mkdir(exist_ok=True)
        (source / "train.py").write_text(textwrap.dedent(script))
        words = ["--strategy", strategy, "--processes-per-host", str(processes), "--entry-point", "train.py"]
        words += options
        return TrainingPlan(
            job={
                "distribution": {"strategy": strategy, "processes_per_host": processes},
                "checkpoint": {"resume_from": resume_from} if resume_from else {},
            },
            request={
                "TrainingJobName": name,
                "AlgorithmSpecification": {
                    "ContainerEntrypoint": ["python3", "/opt/ml/input/data/code/slipway.pyz"],
                    "ContainerArguments": [*words, *(["--", *arguments] if arguments else [])],
                },
                "InputDataConfig": [channel("code", "s3://bucket/code")],
                "ResourceConfig": {"InstanceType": "ml.m5.xlarge", "InstanceCount": hosts},
                "Environment": {MARK: self.mark, **(environment or {})},
                **request,
            },
            package=SourcePackage(read_source(source, "train.py"), "s3://bucket/code"),
            findings=(),
            region="us-east-1",
        )

    def processes(self) -> list[psutil.Process]:
        """All living processes that inherited this test's mark."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def shared(self, name: str, job: str = "job-1") -> Path:
        """A file in the job's checkpoint folder, through which scripts and tests talk."""
        return self.home / job / "checkpoints" / name


def channel(name: str, uri: str, **more: Any) -> dict[str, Any]:
    return {"ChannelName": name, "DataSource": {"S3DataSource": {"S3Uri": uri}}, **more}


def finish(backend: LocalBackend, name: str = "job-1") -> JobStatus:
    """The job's final status."""

    def final() -> JobStatus | None:
        status = backend.describe(name)
        return status if status.state.is_final else None

    return eventually(final)


def all_lines(backend: LocalBackend, name: str = "job-1") -> list[LogLine]:
    lines: list[LogLine] = []
    cursor: dict[str, str] = {}
    while (batch := backend.read_logs(name, cursor)).lines:
        lines += batch.lines
        cursor = dict(batch.cursor)
    return lines


def texts(backend: LocalBackend, host: str = "algo-1", name: str = "job-1") -> list[str]:
    return [line.text for line in all_lines(backend, name) if line.host == host]
