"""Storage is measured by all hosts at once, and whatever goes wrong there is told and ends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

from slipway.fabric.storage import measure_storage
from slipway.saving.uploads import URI_VARIABLE

SIZE = 100_000


class Hosts:
    """Three hosts with a rank each, on threads of this process."""

    def __init__(self, number: int, told: list[Any], barrier: Barrier) -> None:
        self.hosts: list[Any] = ["algo-1", "algo-2", "algo-3"]
        self.host: Any = self.hosts[number]
        self.is_first_on_host = True
        self._number, self._told, self._barrier = number, told, barrier

    def gather(self, told: Any) -> list[Any]:
        self._told[self._number] = told
        self._barrier.wait(60)
        answers = list(self._told)
        self._barrier.wait(60)
        return answers


def measured(
    *folders: str,
    checkpoints: bool = False,
    size: int = SIZE,
    environment: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    told: list[Any] = [None] * 3
    barrier = Barrier(3)

    def of_host(number: int) -> list[dict[str, Any]]:
        return measure_storage(Hosts(number, told, barrier), folders, checkpoints, size, environment or {})

    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(of_host, range(3)))
    assert answers[0] == answers[1] == answers[2]
    return answers[0]


def test_each_host_writes_a_file_and_reads_anothers_and_nothing_is_left(tmp_path: Path) -> None:
    [found] = measured(f"shared={tmp_path}")
    assert (found["what"], found["bytes"], found["error"]) == ("shared", SIZE, None)
    assert list(found["write"]) == list(found["read"]) == ["algo-1", "algo-2", "algo-3"]
    assert all(rate > 0 for rate in (*found["write"].values(), *found["read"].values()))
    assert list(tmp_path.iterdir()) == []


def test_the_jobs_place_for_checkpoints_is_written_and_read(tmp_path: Path) -> None:
    [found] = measured(checkpoints=True, environment={URI_VARIABLE: str(tmp_path / "store")})
    assert (found["what"], found["error"]) == ("checkpoints", None)
    assert len(found["read"]) == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_place_that_fails_is_told_and_the_next_one_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    broken, sound = measured(f"broken={tmp_path / 'file' / 'below'}", f"sound={tmp_path}")
    assert broken["error"].startswith("write: NotADirectoryError")
    assert (broken["write"], broken["read"]) == ({}, {})
    assert sound["error"] is None


def test_a_job_without_a_place_for_checkpoints_says_so() -> None:
    [found] = measured(checkpoints=True)
    assert "no place for checkpoints" in found["error"]


def test_nothing_is_measured_where_nothing_is_to_be_written(tmp_path: Path) -> None:
    assert measured(f"shared={tmp_path}", checkpoints=True, size=0) == []
