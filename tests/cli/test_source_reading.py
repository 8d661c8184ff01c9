"""However often a launch plans, packs and tries again, it walks the user's source once."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launcher.session import launch_job
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.sagemaker import TrainingScript

ONE_HOST = {
    "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 1},
    "distribution": {"strategy": "none"},
}
COMPILED = {
    "framework": {"name": "pytorch", "version": "1.13.1", "python": "py39"},
    "resources": {"instance_type": "ml.p3.2xlarge", "instance_count": 1},
    "distribution": {"strategy": "torch_xla"},
}


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each folder of the source is scanned, by its name below the job file."""
    (tmp_path / "src" / "lib").mkdir(parents=True)
    (tmp_path / "src" / "lib" / "data.py").write_text("x = 1\n")
    counted: Counter[str] = Counter()
    scandir = os.scandir

    def scan(folder: Any = ".") -> Any:
        place = Path(os.fsdecode(folder)) if not isinstance(folder, int) else Path()
        if place.is_relative_to(tmp_path / "src"):
            counted[place.relative_to(tmp_path).as_posix()] += 1
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)
    return counted


ONCE = {"src": 1, "src/lib": 1}


def test_a_plan_walks_once(run_launch: RunLaunch, write_job: WriteJob, scans: Counter[str]) -> None:
    run_launch("plan", write_job())
    assert scans == ONCE


def test_two_plans_of_a_pair_walk_once(
    run_launch: RunLaunch, write_job: WriteJob, scans: Counter[str]
) -> None:
    _, out, _ = run_launch("plan", write_job(**COMPILED), "--pair", "--output", "json")
    assert [bool(plan["request"]) for plan in json.loads(out)["pair"]] == [True, True]
    assert scans == ONCE


@pytest.mark.exhaustive
def test_a_launch_with_another_attempt_walks_once(
    run_launch: RunLaunch,
    write_job: WriteJob,
    scans: Counter[str],
    account: TrainingScript,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch_job.time, "sleep", lambda seconds: None)
    account.failure_reason = "CapacityError: Unable to provision requested ML compute capacity."
    run_launch(write_job(cluster="dev", limits={"max_retries": 1}), "--yes")
    assert len(account.requests) == 2
    assert scans == ONCE


def test_a_local_run_walks_once(
    run_launch: RunLaunch, write_job: WriteJob, scans: Counter[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, _ = run_launch(write_job(**ONE_HOST), "--local")
    assert code == 0
    assert scans == ONCE
