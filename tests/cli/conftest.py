"""Running `launch` in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.interface import Backend, Polling
from launcher.cli.app import main
from tests.emulator.account import EmulatedAccount, emulated_account, provision, use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training

RunLaunch = Callable[..., tuple[int, str, str]]
WriteJob = Callable[..., Path]


@pytest.fixture
def run_launch(capsys: pytest.CaptureFixture[str]) -> RunLaunch:
    """Call `launch` with arguments; return exit code, stdout and stderr."""

    def run(*arguments: Any) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out, printed.err

    return run


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedAccount]:
    """Emulated AWS with the cluster `dev`, and no waiting between looks."""
    use_test_keys(monkeypatch, "us-west-2")
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    with emulated_account() as account:
        provision(account)
        yield account


@pytest.fixture
def account(cloud: EmulatedAccount) -> Iterator[TrainingScript]:
    """What the jobs of that account do."""
    with emulated_training(TrainingScript()) as script:
        yield script
