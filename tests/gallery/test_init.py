"""What `launch init` makes of each example's folder runs with `--local` as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gallery.conftest import HOUR, ROOT

INSTALLS = ("accelerate", "hydra", "lightning", "transformers")
"""Of these the requirements are installed from an index."""

CASES = [
    pytest.param(
        name, marks=pytest.mark.gallery if name in INSTALLS or name == "fsdp" else pytest.mark.exhaustive
    )
    for name in sorted(file.parent.name for file in (ROOT / "examples").glob("*/job.yaml"))
]


@pytest.mark.timeout(HOUR)
@pytest.mark.parametrize("name", CASES)
def test_the_drafted_job_of_an_example_runs_here_without_a_change(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["init", str(ROOT / "examples" / name / "src")], ["job.yaml", "--local", "--yes"]):
        run = subprocess.run(
            [sys.executable, "-m", "launcher.cli.app", *words],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=HOUR,
        )
        assert run.returncode == 0, run.stdout + run.stderr
