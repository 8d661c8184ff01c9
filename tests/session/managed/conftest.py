"""A cluster with a controller in an emulated account, a clock, and a run that was handed over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from launcher.backends.interface import Backend, Polling
from tests.emulator.account import EmulatedAccount, provision
from tests.emulator.managed_cluster import FUNCTION, ManagedCluster, WriteJob
from tests.emulator.sagemaker import TrainingScript, emulated_training


@pytest.fixture
def cluster(
    account: EmulatedAccount, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ManagedCluster]:
    monkeypatch.setattr(Backend, "polling", Polling(seconds=0, seconds_per_host=0))
    provision(account, controller_arn=FUNCTION)
    with emulated_training(TrainingScript()) as script:
        yield ManagedCluster(account, script, write_job)
