"""Temporary folders: those of the dead are collected, those of the living and of others are not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from launcher.source.scratch import UNMARKED_SECONDS, collect_leftovers, scratch_folder

HOLDER = """
import sys, time
from launcher.source.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "part").write_text("packed")
    print(folder.parent, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_empty_and_gone_after_use(folder: Path) -> None:
    with scratch_folder("resume-") as scratch:
        assert list(scratch.iterdir()) == []
        assert scratch.parent.name.startswith("slipway-resume-")
    assert list(folder.iterdir()) == []


def test_that_of_a_living_process_stays_and_that_of_a_killed_one_goes(folder: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(Path(__file__).parents[2])}
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        held = Path(holder.stdout.readline().strip())
        with scratch_folder() as own:
            assert collect_leftovers() == []
            assert own.is_dir()
        assert (held / "content" / "part").exists()
    finally:
        holder.kill()
        holder.communicate()
    with scratch_folder():
        assert not held.exists()


def test_one_without_a_mark_goes_when_it_is_old(folder: Path) -> None:
    made = folder / "slipway-abcd1234"
    made.mkdir()
    (made / "source.tar.gz").touch()
    then = made.stat().st_mtime
    assert collect_leftovers(then + UNMARKED_SECONDS - 1) == []
    assert collect_leftovers(then + UNMARKED_SECONDS + 1) == [made]
    assert not made.exists()


def test_links_files_other_names_and_other_peoples_folders_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "slipway").mkdir()
    (folder / "slipwayx").mkdir()
    (folder / "slipway-file").touch()
    (folder / "slipway-link").symlink_to(folder / "slipway", target_is_directory=True)
    late = (folder / "slipway").stat().st_mtime + 2 * UNMARKED_SECONDS
    assert collect_leftovers(late) == []
    (folder / "slipway-theirs").mkdir()
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert collect_leftovers(late) == []
    assert len(list(folder.iterdir())) == 5
