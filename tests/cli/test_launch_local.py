"""`launch --local`: what it shows and asks before it starts, and what is left afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.backends.environments import environment
from tests.cli.conftest import RunLaunch, WriteJob

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


def test_a_failed_run_is_failed_though_whoever_started_the_launcher_ignores_sigchld(
    job_file: Callable[..., Path], tmp_path: Path
) -> None:
    file = job_file("import sys; sys.exit(7)", "none", 1)
    ignoring = ["bash", "-c", 'trap "" CHLD; exec "$@"', "bash", sys.executable, "-m", "launcher.cli.app"]
    run = subprocess.run(
        [*ignoring, str(file), "--local"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "Completed" not in run.stdout + run.stderr


def test_a_full_disk_below_the_output_ends_the_showing_and_not_the_training(
    job_file: Callable[..., Path], tmp_path: Path
) -> None:
    script = """
        import os, pathlib, time
        for step in range(200):
            print("step", step, "x" * 200, flush=True)
        time.sleep(2)
        pathlib.Path(os.environ["SLIPWAY_CHECKPOINT_DIR"], "trained").touch()
    """
    file = job_file(textwrap.dedent(script), "none", 1)
    code = """
import errno, io, os, stat, sys
from launcher.cli import app
class Full(io.FileIO):
    written = 0
    def write(self, data):
        self.written += len(data)
        # Once it leads to /dev/null there is room again, as for a real file.
        if self.written > 8000 and stat.S_ISREG(os.fstat(self.fileno()).st_mode):
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)
sys.stdout = io.TextIOWrapper(io.BufferedWriter(Full("out", "w")), encoding="utf-8")
app.main(sys.argv[1:])
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(file), "--local", "--rank", "all"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "could not be shown to its end: No space left on device" in run.stderr
    assert "is Completed" in run.stderr
    assert len(list(tmp_path.glob(".slipway/local/*/checkpoints/trained"))) == 1


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
    run_launch: RunLaunch, job_file: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, printed, _ = run_launch(job_file(SAVES_AND_ENDS, "none", 1), "--local")
    assert code == 0 and "Completed" in printed, printed
    # What the earlier run ran is run again, whatever has become of the file.
    (tmp_path / "src" / "train.py").write_text("raise SystemExit(3)")

    _, listed, _ = run_launch("list", "--local", "--output", "json")
    [job] = json.loads(listed)["jobs"]
    _, read, _ = run_launch("logs", job["name"], "--host", "algo-2", "--output", "json")
    assert "training" in [json.loads(line)["text"] for line in read.splitlines()]
    again = start(tmp_path, "resume", job["name"])
    printed, _ = again.communicate(timeout=120)
    assert again.returncode == 0, printed
    assert f"resumed from {job['name']}" in printed


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


def test_more_processes_than_the_instance_type_has_devices_start_here(
    job: Callable[..., Path], run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("launcher.cli.launch.is_asking_possible", lambda yes, output: False)
    file = job(
        resources={"instance_type": "ml.g5.xlarge", "instance_count": 5},
        distribution={"strategy": "torchrun"},
    )
    code, out, err = run_launch(file, "--local", "--processes", "2")
    # It comes to the question whether so many fit on this machine.
    assert (code, "10 processes (5 hosts with 2 each)" in err) == (2, True)
    assert "warning" in out and "DIST003" in out


def test_the_answer_decides(
    job: Callable[..., Path], run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr("launcher.cli.launch.is_asking_possible", lambda yes, output: not yes)
    asked = []
    monkeypatch.setattr("launcher.cli.launch.confirm", lambda question: bool(asked.append(question)))
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


def test_without_a_region_it_is_said_which_folder_local_runs_belong_to(
    job: Callable[..., Path], run_launch: RunLaunch, tmp_path: Path
) -> None:
    place = tmp_path / ".slipway" / "local"
    for command in (("list",), ("status", "unknown"), ("resume", "unknown")):
        code, out, err = run_launch(*command)
        assert (code, out, "Set AWS_REGION" in err) == (3, "", True)
        # A list has none to speak of; a name may be a run of another folder.
        assert f"Local runs belong to the folder in which they were launched; {place} has none." in err
    run_launch(job(), "--local")
    code, _, err = run_launch("status", "unknown")
    assert (code, f"{place} has 1: launch list --local" in err) == (3, True)
    code, out, err = run_launch("list")
    assert (code, "digits-" in out) == (0, True)
    assert f"These are the local runs in {place}. For those on AWS: Set AWS_REGION" in err
    # A program that asks for the account's jobs is not given others.
    assert run_launch("list", "--output", "json")[:2] == (3, "")
