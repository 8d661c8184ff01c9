"""What goes into a job's `code` channel."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError
from launcher.backends.packaging import build_boot, build_source


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "lib" / "data.py").write_text("x = 1\n")
    return folder


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as members:
        return members.getnames()


def test_the_same_source_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    first = build_source(source, tmp_path / "a.tar.gz")
    os.utime(source / "train.py", (1, 1))
    (source / "train.py").chmod(0o600)
    assert build_source(source, tmp_path / "b.tar.gz") == first
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_another_source_gives_another_digest(source: Path, tmp_path: Path) -> None:
    first = build_source(source, tmp_path / "a.tar.gz")
    (source / "train.py").write_text("print(2)\n")
    assert build_source(source, tmp_path / "b.tar.gz") != first


def test_members_are_sorted_and_anonymous(source: Path, tmp_path: Path) -> None:
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    build_source(source, tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["lib/data.py", "run.sh", "train.py"]
    assert {(member.uid, member.gid, member.uname, member.mtime) for member in members} == {(0, 0, "", 0)}
    assert [member.mode for member in members] == [0o644, 0o755, 0o644]


@pytest.mark.parametrize("folder", [".git", "__pycache__", ".venv", ".slipway", "lib/__pycache__"])
def test_caches_and_histories_stay_behind(source: Path, tmp_path: Path, folder: str) -> None:
    (source / folder).mkdir(parents=True)
    (source / folder / "file").write_text("x")
    # A virtual environment is full of links; those are nobody's concern either.
    (source / folder / "link").symlink_to(source / "train.py")
    build_source(source, tmp_path / "a.tar.gz")
    assert names(tmp_path / "a.tar.gz") == ["lib/data.py", "train.py"]


@pytest.mark.parametrize("target", ["train.py", "lib", "/etc/passwd", "nowhere"])
def test_links_are_refused_by_name(source: Path, tmp_path: Path, target: str) -> None:
    (source / "lib" / "link").symlink_to(target)
    with pytest.raises(BackendError, match=r"lib/link is a symbolic link"):
        build_source(source, tmp_path / "a.tar.gz")


def test_special_files_are_refused_by_name(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(BackendError, match=r"pipe is neither"):
        build_source(source, tmp_path / "a.tar.gz")


def test_a_folder_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="is not there"):
        build_source(tmp_path / "missing", tmp_path / "a.tar.gz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BackendError, match="holds no files"):
        build_source(tmp_path / "empty", tmp_path / "a.tar.gz")


def test_the_boot_is_deterministic_and_starts(tmp_path: Path) -> None:
    assert build_boot(tmp_path / "a.pyz") == build_boot(tmp_path / "b.pyz")
    with zipfile.ZipFile(tmp_path / "a.pyz") as archive:
        assert {"__main__.py", "slipway/__init__.py", "slipway/boot.py"} <= set(archive.namelist())
    shown = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "a.pyz"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--entry-point" in shown.stdout
