"""A workplace for local jobs, which must be empty of processes afterwards; and emulated SageMaker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from launcher.backends.local.backend import LocalBackend
from tests.backends.workplace import SHORT, Workplace
from tests.emulator.sagemaker import TrainingScript, emulated_training


@pytest.fixture
def workplace(tmp_path: Path) -> Iterator[Workplace]:
    place = Workplace(tmp_path)
    yield place
    left = place.processes()
    for process in left:
        process.kill()
    assert left == [], "processes were left behind"


@pytest.fixture
def local(workplace: Workplace) -> Iterator[LocalBackend]:
    with LocalBackend(workplace.home, grace=SHORT) as local:
        yield local


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[TrainingScript]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with mock_aws(), emulated_training(TrainingScript()) as script:
        yield script
