"""An account for the Python interface, with or without the SageMaker SDK, and jobs for this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.backends.interface import Polling
from launcher.backends.sagemaker.backend import SageMakerBackend
from tests.emulator.account import emulated_account, provision, use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingScript]:
    """An emulated account with the cluster `dev`, whose jobs are looked at without a pause."""
    use_test_keys(monkeypatch, "us-west-2")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    monkeypatch.setattr(SageMakerBackend, "polling", Polling(seconds=0.0, seconds_per_host=0.0))
    with emulated_account() as account, emulated_training(TrainingScript()) as script:
        provision(account)
        yield script


@pytest.fixture
def without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which the SageMaker SDK was never installed."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "sagemaker"]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "sagemaker", None)


@pytest.fixture
def local_job(
    write_job: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Path]:
    """Write the job file of a script for one process on this machine, in the current folder."""
    monkeypatch.chdir(tmp_path)

    def write(script: str) -> Path:
        file = write_job(
            resources={"instance_type": "ml.m5.xlarge", "instance_count": 1},
            distribution={"strategy": "none"},
        )
        (tmp_path / "src" / "train.py").write_text(script)
        return file

    return write
