"""`launch --local` before it starts anything: what it shows of this machine, what it asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.backends.environments import environment

RunLaunch = Callable[..., tuple[int, str, str]]
WriteJob = Callable[..., Path]

PRINTS = """
import os, sys
print(os.environ["SM_HOSTS"], sys.executable)
"""


@pytest.fixture
def job(write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)

    def write(**changes: Any) -> Path:
        file = write_job(
            **{
                "distribution": {"strategy": "none"},
                "resources": {"instance_type": "ml.m5.xlarge", "instance_count": 1},
                **changes,
            }
        )
        (tmp_path / "src" / "train.py").write_text(PRINTS)
        return file

    return write


def test_sixty_four_hosts_with_eight_gpus_are_not_started_unasked(
    job: Callable[..., Path], run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    file = job(
        resources={"instance_type": "ml.p5.48xlarge", "instance_count": 64},
        distribution={"strategy": "torchrun"},
    )
    code, out, err = run_launch(file, "--local")
    assert code == 2
    assert "512 processes (64 hosts with 8 each) would start on this machine with 4 cores" in err
    assert "--processes 1" in err
    assert "world size 512" in out
    assert not (tmp_path / ".slipway").exists()


def test_processes_change_the_plan(
    job: Callable[..., Path], run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    file = job(
        resources={"instance_type": "ml.p5.48xlarge", "instance_count": 64},
        distribution={"strategy": "torchrun"},
    )
    code, out, err = run_launch(file, "--local", "--processes", "2")
    assert code == 2
    assert "2 per host, world size 128" in out
    assert "DIST001" not in out + err
    code, _, err = run_launch(file, "--local", "--processes", "0")
    assert (code, "--processes 0 is not a number of processes" in err) == (2, True)


def test_the_answer_decides(
    job: Callable[..., Path], run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr("launcher.cli.local_run.must_ask", lambda yes, output: not yes)
    asked = []
    monkeypatch.setattr("launcher.cli.local_run.confirmed", lambda question: bool(asked.append(question)))
    file = job(resources={"instance_type": "ml.m5.xlarge", "instance_count": 3})
    code, _, err = run_launch(file, "--local")
    assert (code, asked) == (0, ["Start them all?"])
    assert "3 processes (3 hosts with 1 each)" in err
    assert err.endswith("not started\n")
    assert not (tmp_path / ".slipway").exists()

    code, out, _ = run_launch(file, "--local", "--yes")
    assert (code, len(asked)) == (0, 1)
    assert "algo-3" in out


def test_the_python_that_runs_the_job_is_shown_and_kept(
    job: Callable[..., Path], run_launch: RunLaunch, tmp_path: Path
) -> None:
    python = environment(tmp_path / "venv", torch="2.8.3+cpu")
    code, out, err = run_launch(job(), "--local", "--python", "venv/bin/python")
    assert code == 0, err
    assert f"{python} (torch 2.8.3+cpu)" in out
    assert f'algo-1 ["algo-1"] {python}' in out


def test_a_script_that_asks_for_a_gpu_is_not_blamed_on_a_machine_without(
    job: Callable[..., Path], run_launch: RunLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    file = job(resources={"instance_type": "ml.g5.xlarge", "instance_count": 1})
    (tmp_path / "src" / "train.py").write_text("raise RuntimeError('Found no NVIDIA driver on your system')")
    code, out, _ = run_launch(file, "--local")
    assert code == 1
    before, _, after = " ".join(out.split()).partition("Failed digits")
    assert "here: there is no GPU on this machine" in before
    assert "on ml.g5.xlarge the script would go on" in after
    [run] = (tmp_path / ".slipway" / "local").glob("digits-*")
    # From any folder of the project.
    monkeypatch.chdir(tmp_path / "src")
    code, out, _ = run_launch("diagnose", run.name)
    assert code == 1
    assert "on ml.g5.xlarge the script would go on" in " ".join(out.split())


def test_what_is_no_python_ends_with_a_sentence(
    job: Callable[..., Path], run_launch: RunLaunch, tmp_path: Path
) -> None:
    code, _, err = run_launch(job(), "--local", "--python", tmp_path / "no" / "python")
    assert (code, "there is no Python" in err) == (2, True)
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--python", "--processes"])
def test_options_for_this_machine_are_refused_without_it(
    job: Callable[..., Path], run_launch: RunLaunch, option: str
) -> None:
    code, _, err = run_launch(job(), "--dry-run", option, "1")
    assert (code, "Add --local" in err) == (2, True)


@pytest.mark.few_cases("command0")
@pytest.mark.parametrize("command", [("list",), ("status", "unknown"), ("logs", "unknown")])
def test_without_a_region_the_local_runs_are_hinted_at_where_there_are_some(
    job: Callable[..., Path], run_launch: RunLaunch, command: tuple[str, ...]
) -> None:
    code, _, err = run_launch(*command)
    assert (code, "launch list --local" in err) == (3, False)
    assert "Set AWS_REGION" in err
    run_launch(job(), "--local")
    code, _, err = run_launch(*command)
    assert code == 3
    assert "Set AWS_REGION" in err
    assert "The local runs: launch list --local" in err
