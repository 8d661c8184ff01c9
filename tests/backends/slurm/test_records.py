"""What a run's folder on the shared file system tells of it."""

from __future__ import annotations

from pathlib import Path

from launcher.backends.slurm.records import EVENTS_NAME, RunEvents, read_events


def test_the_end_of_an_earlier_start_is_none_of_the_next_one(tmp_path: Path) -> None:
    lines = ["start 100 0 n[1-2]", "term 160 0 15", "start 170 1 n[1,3]", "term 171 0 15", "end 172 0 143"]
    (tmp_path / EVENTS_NAME).write_text("\n".join(lines) + "\n")
    assert read_events(tmp_path) == RunEvents((100.0, 170.0))
    with (tmp_path / EVENTS_NAME).open("a") as file:
        file.write("term 200 1 15\nend 210 1 0\n")
    assert read_events(tmp_path) == RunEvents((100.0, 170.0), told=200.0, ended=210.0, exit_code=0)


def test_what_is_cut_or_not_there_tells_nothing(tmp_path: Path) -> None:
    assert read_events(tmp_path) == RunEvents()
    (tmp_path / EVENTS_NAME).write_text("start 100 0 n1\nend 1")
    assert read_events(tmp_path) == RunEvents((100.0,))
