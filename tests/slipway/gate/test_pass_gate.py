"""The gate of a host alone: whose GPUs reduce, and in which processes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import slipway
from slipway.container import Container, Rendezvous, Task
from slipway.gate import pass_gate as passing
from slipway.gate.pass_gate import Surroundings, pass_gate
from slipway.host_assembly import Assembly
from slipway.processes.supervise import StopRequest


def passed_alone(folder: Path, strategy: str, processes: int) -> None:
    container = Container(folder, ("algo-1",), "algo-1", "", None, {}, {}, {})
    rendezvous = Rendezvous("127.0.0.1", 7777)
    package = Path(slipway.__file__).parent.parent
    environment = {**os.environ, "SLIPWAY_CHECKPOINT_DIR": str(folder / "checkpoints")}
    task = Task(strategy, processes, entry_point="train.py", gate="warn")
    around = Surroundings(task, container, rendezvous, package, environment)
    assembly = Assembly(container, rendezvous, "job")
    try:
        assert pass_gate(around, assembly, StopRequest()) is None
    finally:
        assembly.close()


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device files of two GPUs; no driver stands behind them."""
    monkeypatch.setattr(passing, "device_count", lambda environment: 2)


@pytest.mark.exhaustive
def test_several_gpus_of_a_host_alone_are_tried_in_processes_of_their_own(
    tmp_path: Path, two_gpus: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # A slow machine may take longer to import torch than a job should wait.
    monkeypatch.setattr(passing, "READY_SECONDS", 300.0)
    passed_alone(tmp_path, "torchrun", 2)
    assert [file.name for file in sorted((tmp_path / "slipway" / "gate").iterdir())] == [
        "stderr-0", "stderr-1",
    ]  # fmt: skip
    said = capfd.readouterr().err
    assert "warning: gate: IMG002 algo-1: " in said or "the all-reduce between the GPUs (algo-1: " in said


@pytest.mark.parametrize(("strategy", "processes"), [("torchrun", 1), ("none", 1)])
def test_a_rank_alone_needs_nobody(tmp_path: Path, two_gpus: None, strategy: str, processes: int) -> None:
    passed_alone(tmp_path, strategy, processes)
    assert not (tmp_path / "slipway" / "gate").exists()
