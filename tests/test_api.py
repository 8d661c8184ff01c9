"""`from launcher import plan, launch`, as in a notebook."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import launcher
from launcher.api import LaunchRefusedError
from launcher.cluster.manifest import Cluster
from tests.emulator.account import emulated_account
from tests.emulator.sagemaker import TrainingScript, emulated_training

WriteJob = Callable[..., Path]


def test_a_plan_is_made_from_a_file_with_changes(write_job: WriteJob) -> None:
    made = launcher.plan(write_job(), overrides={"resources.instance_count": "4"})
    assert made.request["ResourceConfig"]["InstanceCount"] == 4


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingScript]:
    """An emulated account with the cluster `dev`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    with emulated_account() as account, emulated_training(TrainingScript()) as script:
        account.client("ssm").put_parameter(
            Name="/slipway/clusters/dev",
            Value=Cluster.model_validate(account.manifest()).model_dump_json(),
            Type="String",
        )
        yield script


def test_a_launch_returns_the_resource_of_the_sdk(write_job: WriteJob, account: TrainingScript) -> None:
    from sagemaker.core.resources import TrainingJob

    job = launcher.launch(write_job(), cluster="dev")
    assert isinstance(job, TrainingJob)
    assert job.training_job_name == account.requests[0]["TrainingJobName"]


def test_a_run_that_launches_again_gets_the_first_job(write_job: WriteJob, account: TrainingScript) -> None:
    file = write_job()
    names = {launcher.launch(file, cluster="dev", run_id="nightly-7").training_job_name for _ in range(2)}
    assert names == {account.requests[0]["TrainingJobName"]}
    assert len(account.requests) == 1


def test_a_launch_with_tuning_returns_the_tuning_job(write_job: WriteJob, account: TrainingScript) -> None:
    from sagemaker.core.resources import HyperParameterTuningJob

    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": [0.1, 0.01]},
        "max_jobs": 2,
    }
    job = launcher.launch(write_job(tuning=tuning), cluster="dev")
    assert isinstance(job, HyperParameterTuningJob)
    assert job.hyper_parameter_tuning_job_name.startswith("digits-")


def test_a_launch_that_is_refused_raises_with_the_findings(write_job: WriteJob) -> None:
    file = write_job(code={"source_dir": "src", "entry_point": "no.py"})
    with pytest.raises(LaunchRefusedError, match="CODE002") as refused:
        launcher.launch(file)
    assert "CODE002" in [finding.code for finding in refused.value.findings]


def test_importing_the_package_loads_nothing_of_it() -> None:
    program = "import sys, launcher; print([name for name in sys.modules if name.startswith('launcher.')])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    assert [name for name in launcher.__all__ if getattr(launcher, name, None) is None] == []


def test_types_come_with_the_package() -> None:
    assert (Path(launcher.__file__).parent / "py.typed").exists()
