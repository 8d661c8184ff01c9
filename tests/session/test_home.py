"""Where the local runs of a project are."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest

from launcher.backends.interface import BackendError
from launcher.session.home import local_home, made_home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of a project, two below its root."""
    folder = tmp_path / "project" / "training" / "configs"
    folder.mkdir(parents=True)
    return folder


def test_in_a_repository_they_are_at_its_root(project: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / ".git").mkdir()
    # What lies above the repository is of something else.
    (tmp_path / ".slipway").mkdir()
    assert local_home(project) == root / ".slipway" / "local"


def test_in_a_worktree_they_are_at_its_root(project: Path, tmp_path: Path) -> None:
    (tmp_path / "project" / ".git").write_text("gitdir: /elsewhere\n")
    assert local_home(project) == tmp_path / "project" / ".slipway" / "local"


def test_the_nearest_that_is_there_counts(project: Path, tmp_path: Path) -> None:
    (tmp_path / "project" / ".git").mkdir()
    (tmp_path / "project" / ".slipway").mkdir()
    (project.parent / ".slipway").mkdir()
    assert local_home(project) == project.parent / ".slipway" / "local"


def test_without_a_repository_a_new_one_is_made_where_the_command_is_called(project: Path) -> None:
    assert local_home(project) == project / ".slipway" / "local"
    made_home(project)
    below = project / "deeper"
    below.mkdir()
    assert local_home(below) == project / ".slipway" / "local"


def test_a_file_of_that_name_is_not_taken_for_the_folder(project: Path) -> None:
    (project.parent / ".slipway").touch()
    assert local_home(project) == project / ".slipway" / "local"


def test_what_anybody_may_have_put_above_does_not_count(project: Path) -> None:
    (project.parent / ".slipway").mkdir()
    project.parent.chmod(0o1777)
    assert local_home(project) == project / ".slipway" / "local"
    # Who calls a command in such a folder means it.
    assert local_home(project.parent) == project.parent / ".slipway" / "local"


def test_what_another_user_made_does_not_count(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.parent / ".slipway").mkdir()
    monkeypatch.setattr(os, "getuid", lambda: 1_000_001)
    assert local_home(project) == project / ".slipway" / "local"


def test_git_does_not_see_what_is_made(project: Path, tmp_path: Path) -> None:
    root = tmp_path / "project"
    subprocess.run(["git", "init", "-q", root], check=True)
    home = made_home(project)
    home.mkdir()
    (home / "run").touch()
    shown = subprocess.run(
        ["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True
    )
    assert shown.stdout == ""


def test_what_is_there_is_left_as_it_is(project: Path) -> None:
    (project / ".slipway").mkdir()
    made_home(project)
    assert list((project / ".slipway").iterdir()) == []
    (project / ".slipway" / ".gitignore").write_text("mine\n")
    made_home(project)
    assert (project / ".slipway" / ".gitignore").read_text() == "mine\n"


def test_a_folder_that_cannot_be_made_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(BackendError, match=f"{project}/.slipway, cannot be made: Permission denied"):
        made_home(project)


def test_a_file_in_place_of_the_folder_is_refused(project: Path) -> None:
    (project / ".slipway").touch()
    with pytest.raises(BackendError, match="cannot be made: File exists"):
        made_home(project)
