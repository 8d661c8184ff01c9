"""The heartbeat's file: what a rank writes is what the boot reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.ranks import heartbeat
from slipway.ranks.heartbeat import LOADED, STARTED, Heartbeat, heartbeat_file, read_beat


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    return now


def test_the_boot_reads_what_the_rank_wrote(tmp_path: Path, clock: list[float]) -> None:
    file = heartbeat_file(tmp_path, 5)
    rank = Heartbeat(file, signal=45)
    beat = read_beat(file)
    assert beat is not None
    assert (beat.pid, beat.signal, beat.phase, beat.started) == (os.getpid(), 45, STARTED, 100.0)
    assert (beat.steps, beat.last) == (0, 0.0)
    rank.enter(LOADED)
    for clock[0] in (110.0, 112.0, 119.0, 120.0):
        rank.beat()
    beat = read_beat(file)
    assert beat is not None
    assert (beat.phase, beat.steps, beat.last) == (LOADED, 4, 120.0)
    assert beat.longest == 7.0, "from the start to the first step is no pause between steps"


@pytest.mark.parametrize("content", [b"", b"slipway1", b"x" * 4096])
def test_another_file_is_no_heartbeat(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "0").write_bytes(content)
    assert read_beat(tmp_path / "0") is None
    assert read_beat(tmp_path / "1") is None


def test_who_is_silenced_leaves_the_file_as_it_is(tmp_path: Path) -> None:
    rank = Heartbeat(tmp_path / "0")
    rank.beat()
    rank.silence()
    rank.beat()
    beat = read_beat(tmp_path / "0")
    assert beat is not None and beat.steps == 1
