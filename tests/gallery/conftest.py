"""The examples, run as their readers run them: `launch examples/NAME/job.yaml --local`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

HOUR = 3600
"""No example takes a tenth of it; installing what they require may."""


@dataclass(frozen=True)
class ExampleRun:
    """A run that has ended: what it printed on stderr (its log), and the result as JSON."""

    exit_code: int
    log: str
    result: dict[str, Any]

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self.result["name"])

    @property
    def checkpoints(self) -> Path:
        """What the run left to go on from."""
        return self.home / "checkpoints"

    @property
    def model(self) -> Path:
        """What the first host left in /opt/ml/model."""
        return self.home / "hosts" / "algo-1" / "ml" / "model"

    @property
    def home(self) -> Path:
        """The run's folder."""
        return Path.cwd() / ".slipway" / "local" / self.name


RunExample = Callable[..., ExampleRun]


@pytest.fixture
def run_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunExample:
    """Run an example by its name, in an empty folder, with other values of some fields (`--set`)."""
    monkeypatch.chdir(tmp_path)

    def run(name: str, **fields: object) -> ExampleRun:
        sets = [word for field, value in fields.items() for word in ("--set", f"{field}={value}")]
        job_file = ROOT / "examples" / name / "job.yaml"
        command = [sys.executable, "-m", "launcher.cli.app", str(job_file), "--local", "--output", "json"]
        ended = subprocess.run(
            [*command, "--yes", "--rank", "all", *sets],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=HOUR,
        )
        assert ended.stdout, ended.stderr
        return ExampleRun(ended.returncode, ended.stderr, json.loads(ended.stdout))

    return run
