"""When a file counts as finished."""

from __future__ import annotations

from pathlib import Path

import pytest

from slipway.uploads.watching import FileState, Quiet, files_below, open_for_writing

ONE, TWO = FileState(10, 1), FileState(20, 2)


def test_a_file_is_finished_once_it_was_unchanged_for_so_long() -> None:
    quiet = Quiet()
    assert quiet.unchanged({"a": ONE}, 0.0, 5.0) == []
    assert quiet.unchanged({"a": ONE}, 4.9, 5.0) == []
    assert quiet.unchanged({"a": ONE}, 5.0, 5.0) == ["a"]


def test_a_change_begins_the_wait_anew() -> None:
    quiet = Quiet()
    quiet.unchanged({"a": ONE}, 0.0, 5.0)
    assert quiet.unchanged({"a": TWO}, 5.0, 5.0) == []
    assert quiet.unchanged({"a": TWO}, 9.9, 5.0) == []
    assert quiet.unchanged({"a": TWO}, 10.0, 5.0) == ["a"]


def test_a_file_that_went_and_came_back_is_a_new_one() -> None:
    quiet = Quiet()
    quiet.unchanged({"a": ONE}, 0.0, 5.0)
    quiet.unchanged({}, 3.0, 5.0)
    assert quiet.unchanged({"a": ONE}, 6.0, 5.0) == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is open is read from /proc")
def test_only_what_is_open_to_write_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "read.pt").write_bytes(b"x")
    with (
        (tmp_path / "deep" / "written.pt").open("wb"),
        (tmp_path / "appended.log").open("ab"),
        (tmp_path / "read.pt").open("rb"),
    ):
        assert open_for_writing(tmp_path) == {"deep/written.pt", "appended.log"}
    assert open_for_writing(tmp_path) == set()


def test_without_proc_nothing_is_known_to_be_written(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb"):
        assert open_for_writing(tmp_path, tmp_path / "no-proc") == set()


def test_links_and_the_managers_checkpoints_are_no_files_of_scripts(tmp_path: Path) -> None:
    (tmp_path / "step-000000000001-0a1b2c3d").mkdir()
    (tmp_path / "step-000000000001-0a1b2c3d" / "model.pt").write_bytes(b"x")
    (tmp_path / "link.pt").symlink_to("/etc/passwd")
    (tmp_path / "step-5").mkdir()
    (tmp_path / "step-5" / "model.pt").write_bytes(b"12345")
    found = files_below(tmp_path)
    assert {name: one.size for name, one in found.items()} == {"step-5/model.pt": 5}


def test_a_folder_that_is_not_there_has_no_files(tmp_path: Path) -> None:
    assert files_below(tmp_path / "none") == {}
