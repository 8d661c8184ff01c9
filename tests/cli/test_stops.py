"""A job that was ended from outside, as `launch`, `status` and `diagnose` tell of it, wherever it ran."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from launcher.backends.interface import Backend, Polling
from launcher.backends.local.processes import ORPHANED_FILE
from tests.cli.conftest import RunLaunch, WriteJob
from tests.cli.test_jobs import NAME, REGION, REQUEST
from tests.cli.test_launch_local import SAVES_WHEN_STOPPED, processes_of, start
from tests.emulator.account import use_test_keys
from tests.emulator.policy_simulation import emulated_simulation
from tests.emulator.sagemaker import TrainingScript, emulated_training
from tests.emulator.service_quotas import emulated_quotas

RAISED = (
    "Traceback (most recent call last):",
    '  File "/opt/ml/code/train.py", line 9, in <module>',
    "    main()",
    "KeyError: 'label'",
)
ENDED_LATE = (
    "E0820 11:30:44 9 torch/distributed/elastic/api.py:874] failed (exitcode: -15) local_rank: 0 (pid: 5)",
    *RAISED,
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
)


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TrainingScript]:
    use_test_keys(monkeypatch, REGION)
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    monkeypatch.chdir(tmp_path)
    with (
        mock_aws(),
        emulated_quotas({}, {}),
        emulated_simulation(),
        emulated_training(TrainingScript(logs={"algo-1": ["step=1"]})) as script,
    ):
        yield script


def ended(run_launch: RunLaunch, script: TrainingScript, request: dict[str, Any] = REQUEST) -> None:
    """The job of a script, seen to its end."""
    boto3.client("sagemaker", region_name=REGION).create_training_job(**request)
    for _ in range(len(script.phases) + 3):
        run_launch("logs", NAME)


def told(run_launch: RunLaunch, name: str) -> tuple[int, dict[str, Any], int, dict[str, Any]]:
    """Exit codes and documents of status and diagnose."""
    status, seen, _ = run_launch("status", name, "--output", "json")
    diagnose, why, _ = run_launch("diagnose", name, "--output", "json")
    return status, json.loads(seen), diagnose, json.loads(why)


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize("late", [False, True], ids=["ranks end in time", "ranks do not"])
@pytest.mark.parametrize(
    ("phase", "phases", "cause", "says"),
    [
        ("Stopped", ("Downloading", "Training"), "asked", "whoever called StopTrainingJob"),
        ("MaxRuntimeExceeded", ("Downloading", "Training"), "max-runtime", "limits.max_runtime (1h)"),
        ("Interrupted", ("Training",), "spot", "its spot hosts were taken"),
        ("MaxWaitTimeExceeded", ("Training", "Interrupted", "Starting"), "max-wait", "limits.max_wait"),
    ],
)
def test_a_training_job_that_was_stopped_is_told_as_such_everywhere(
    run_launch: RunLaunch,
    account: TrainingScript,
    phase: str,
    phases: tuple[str, ...],
    cause: str,
    says: str,
    late: bool,
) -> None:
    account.phases, account.stopped_as = phases, phase
    account.last_words = {"algo-1": ENDED_LATE if late else ["saved"]}
    ended(run_launch, account)
    status, seen, diagnose, why = told(run_launch, NAME)
    assert (status, seen["verdict"], seen["failure"]) == (0, "stopped", None)
    assert (seen["stop"]["code"], seen["stop"]["cause"]) == ("STOP001", cause)
    assert says in seen["stop"]["message"]
    assert isinstance(seen["stop"]["at"], float)
    assert (diagnose, why["verdict"], why["root_cause"]["code"]) == (0, "stopped", "STOP001")
    assert why["root_cause"]["rank"] is None
    _, out, _ = run_launch("status", NAME)
    assert "STOP001" in out
    assert "CODE001" not in out
    code, out, _ = run_launch("logs", NAME, "--follow")
    assert (code, "STOP001" in out, "CODE001" in out) == (1, True, False)


def test_a_job_whose_budget_is_used_up_is_told_as_such(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    account.phases, account.stopped_as = ("Downloading", "Training"), "MaxRuntimeExceeded"
    hosts = REQUEST["ResourceConfig"]["InstanceCount"]
    budget = {"max_usd": 8.0 * hosts, "usd_per_hour": 8.0}
    environment = {**REQUEST.get("Environment", {}), "SLIPWAY_BUDGET": json.dumps(budget)}
    ended(run_launch, account, {**REQUEST, "Environment": environment})
    _, seen, _, why = told(run_launch, NAME)
    assert (seen["stop"]["cause"], seen["stop"]["limit"]) == ("max-usd", 3600)
    assert f"limits.max_usd: a budget of {8 * hosts:.2f} USD is used up" in seen["stop"]["message"]
    assert "max_usd" in why["root_cause"]["remedy"]


def test_what_failed_before_the_stop_is_the_failure(run_launch: RunLaunch, account: TrainingScript) -> None:
    account.logs = {"algo-1": RAISED}
    account.stopped_as, account.phases = "Stopped", ("Training", "Training")
    ended(run_launch, account)
    status, seen, diagnose, why = told(run_launch, NAME)
    assert (status, seen["verdict"], seen["failure"]["code"], seen["stop"]) == (1, "failed", "CODE001", None)
    assert (diagnose, why["root_cause"]["code"]) == (1, "CODE001")
    assert "STOP001" in [finding["code"] for finding in why["consequences"]]


def test_a_spot_job_that_never_got_its_hosts_lacked_capacity(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    account.phases, account.stopped_as = ("Pending",), "MaxWaitTimeExceeded"
    ended(run_launch, account)
    _, seen, diagnose, why = told(run_launch, NAME)
    assert (seen["verdict"], diagnose, why["root_cause"]["code"]) == ("failed", 1, "CAP001")


def test_a_spot_job_that_goes_on_was_not_stopped(run_launch: RunLaunch, account: TrainingScript) -> None:
    account.phases = ("Training", "Interrupted", "Starting", "Training")
    account.logs = {"algo-1": ENDED_LATE[:1]}
    boto3.client("sagemaker", region_name=REGION).create_training_job(**REQUEST)
    for _ in range(3):
        status, seen, _, why = told(run_launch, NAME)
        assert (status, why["verdict"]) == (0, "healthy"), seen["phase"]


@pytest.fixture
def job_file(write_job: WriteJob, tmp_path: Path) -> Path:
    file = write_job(
        resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
        distribution={"strategy": "none", "processes_per_host": 1},
        checkpoint={},
    )
    (tmp_path / "src" / "train.py").write_text(SAVES_WHEN_STOPPED)
    return file


def running(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A launcher whose script is training."""
    run = start(folder, *arguments)
    assert run.stdout is not None
    seen = []
    while not any("algo-1 training" in line for line in seen):
        seen.append(run.stdout.readline())
        assert seen[-1], "".join(seen)
    return run


def test_a_launcher_that_gets_sigterm_ends_its_run_in_order_and_says_who(
    run_launch: RunLaunch, job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running(tmp_path, str(job_file), "--local", "--output", "json")
    run.send_signal(signal.SIGTERM)
    printed, _ = run.communicate(timeout=120)
    assert run.returncode == 128 + signal.SIGTERM
    assert processes_of(tmp_path) == []
    document = json.loads(printed[printed.index("\n{") :])
    assert (document["state"], document["verdict"]) == ("Stopped", "stopped")
    assert document["stop"]["who"] == f"SIGTERM to its launcher (process {run.pid})"
    monkeypatch.chdir(tmp_path)
    status, seen, diagnose, why = told(run_launch, document["name"])
    assert (status, seen["stop"]) == (0, document["stop"])
    assert (diagnose, why["verdict"]) == (0, "stopped")


@pytest.mark.exhaustive
def test_a_launcher_that_is_killed_leaves_a_run_that_was_stopped(
    run_launch: RunLaunch, job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = running(tmp_path, str(job_file), "--local")
    monkeypatch.chdir(tmp_path)
    (name,) = [file.parent.name for file in Path(".slipway/local").glob("*/status.json")]
    run.kill()
    run.communicate(timeout=120)
    seen: dict[str, Any] = {"state": "Stopping"}
    while seen["state"] == "Stopping":
        status, seen, diagnose, why = told(run_launch, name)
    gone = (tmp_path / ".slipway" / "local" / name / ORPHANED_FILE).stat().st_mtime
    assert (status, seen["state"], seen["verdict"]) == (0, "Stopped", "stopped")
    assert seen["stop"]["cause"] == "launcher"
    assert seen["stop"]["who"] == f"process {run.pid}"
    assert seen["stop"]["at"] == gone
    assert (diagnose, why["root_cause"]["code"]) == (0, "STOP001")
    _, out, _ = run_launch("status", name)
    assert f"its launcher (process {run.pid}) was killed at" in out


def test_what_the_script_itself_moved_to_s3_can_be_gone_on_from(
    run_launch: RunLaunch, account: TrainingScript
) -> None:
    """With `checkpoint.sync: slipway` the request has no CheckpointConfig, and yet the job resumes."""
    account.phases, account.stopped_as = ("Training",), "Stopped"
    moved = {"SLIPWAY_CHECKPOINT_URI": "s3://bucket/checkpoints/mine"}
    request = {**REQUEST, "Environment": moved}
    del request["CheckpointConfig"]
    boto3.client("sagemaker", region_name=REGION).create_training_job(**request)
    for _ in range(5):
        run_launch("logs", NAME)
    _, seen, _, _ = told(run_launch, NAME)
    assert seen["checkpoints"] == "s3://bucket/checkpoints/mine"
    assert f"launch resume {NAME}" in seen["stop"]["remedy"]
