"""`launch --local` as a process of its own: what a terminal sees, and what is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

WriteJob = Callable[..., Path]

KILLED = """
import os, signal, time
if os.environ["RANK"] == "3":
    os.kill(os.getpid(), signal.SIGKILL)
time.sleep(60)
"""

SAVES_WHEN_STOPPED = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
for file in sorted(folder.iterdir()):
    print("resumed from", file.read_text(), flush=True)
    sys.exit(0)
def save(number, frame):
    (folder / "state").write_text("step 7")
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("training", flush=True)
time.sleep(60)
"""


SAVES_AND_ENDS = """
import os, pathlib
state = pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ["SM_CURRENT_HOST"])
job = os.environ["TRAINING_JOB_NAME"]
if state.exists() and state.read_text() != job:
    print("resumed from", state.read_text(), flush=True)
state.write_text(job)
print("training", flush=True)
"""


@pytest.fixture
def job_file(write_job: WriteJob, tmp_path: Path) -> Callable[..., Path]:
    def write(script: str, strategy: str, processes: int) -> Path:
        file = write_job(
            resources={"instance_type": "ml.m5.xlarge", "instance_count": 2},
            distribution={"strategy": strategy, "processes_per_host": processes},
            checkpoint={},
        )
        (tmp_path / "src" / "train.py").write_text(script)
        return file

    return write


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "launcher.cli.app", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # As at a terminal: whatever runs the tests in the background may ignore Ctrl-C, and so would we.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def processes_of(folder: Path) -> list[psutil.Process]:
    """What still runs with a path below the folder on its command line."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and any(str(folder) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.exhaustive
def test_a_killed_rank_is_named_and_nothing_is_left(job_file: Callable[..., Path], tmp_path: Path) -> None:
    run = start(tmp_path, str(job_file(KILLED, "torchrun", 2)), "--local")
    printed, _ = run.communicate(timeout=120)
    verdict = printed[printed.rindex("Failed ") :]
    assert run.returncode == 1
    assert "MEM002 rank 3 on algo-2" in verdict
    assert "→" in verdict
    assert processes_of(tmp_path) == []


@pytest.mark.exhaustive
def test_ctrl_c_stops_the_run_in_order_and_it_can_be_resumed(
    job_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = str(job_file(SAVES_WHEN_STOPPED, "none", 1))
    run = start(tmp_path, file, "--local", "--rank", "all")
    assert run.stdout is not None
    seen = []
    while sum("training" in line for line in seen) < 2:
        seen.append(run.stdout.readline())
        assert seen[-1], "".join(seen)
    run.send_signal(signal.SIGINT)
    printed, _ = run.communicate(timeout=120)
    assert run.returncode == 130
    assert "Traceback" not in printed
    assert f"STOP001 stopped by Ctrl-C in its launcher (process {run.pid}) at" in printed
    assert processes_of(tmp_path) == []

    name = printed.split("resume_from=")[1].split()[0]
    again = start(tmp_path, file, "--local", "--set", f"checkpoint.resume_from={name}")
    printed, _ = again.communicate(timeout=120)
    assert again.returncode == 0
    assert "resumed from step 7" in printed


def test_a_run_that_has_ended_is_listed_read_and_resumed_by_its_name(
    job_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = job_file(SAVES_AND_ENDS, "none", 1)
    printed, _ = start(tmp_path, str(file), "--local").communicate(timeout=120)
    assert "Completed" in printed, printed
    # What the earlier run ran is run again, whatever has become of the file.
    (tmp_path / "src" / "train.py").write_text("raise SystemExit(3)")

    listed, _ = start(tmp_path, "list", "--local", "--output", "json").communicate(timeout=60)
    [job] = json.loads(listed)["jobs"]
    options = ("--host", "algo-2", "--output", "json")
    read, _ = start(tmp_path, "logs", job["name"], *options).communicate(timeout=60)
    assert "training" in [json.loads(line)["text"] for line in read.splitlines()]
    again = start(tmp_path, "resume", job["name"])
    printed, _ = again.communicate(timeout=120)
    assert again.returncode == 0, printed
    assert f"resumed from {job['name']}" in printed
