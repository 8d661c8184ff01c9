"""A source folder, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.source.errors import SourceError
from launcher.source.files import IgnoredPath
from launcher.source.tree import SourceTree, read_source


def tree(folder: Path, entry_point: str = "train.py", *names: str) -> SourceTree:
    for name in names or ("train.py",):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    return read_source(folder, entry_point)


def test_a_sound_source_has_a_digest_and_no_problem(tmp_path: Path) -> None:
    read = tree(tmp_path)
    assert (read.exists, read.has_entry_point, read.packs_entry_point, read.problems) == (
        True,
        True,
        True,
        (),
    )
    assert read.digest is not None and len(read.digest) == 64
    assert read.size_bytes == 6


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    read = read_source(tmp_path / "missing", "train.py")
    assert (read.exists, read.has_entry_point, read.files, read.digest) == (False, False, (), None)
    assert ["is not there" in problem.message for problem in read.problems] == [True]


def test_a_source_with_a_problem_has_files_and_no_digest(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/nowhere")
    read = tree(tmp_path)
    assert read.digest is None and read.packs_entry_point
    assert ["is a symbolic link" in problem.message for problem in read.problems] == [True]


def test_a_file_that_cannot_be_read_is_the_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("launcher.source.archive.open_regular", refused)
    read = tree(tmp_path)
    assert read.digest is None
    (problem,) = read.problems
    assert "train.py cannot be packed: Permission denied" in problem.message


@pytest.mark.parametrize(
    ("entry_point", "packed", "outside"),
    [
        ("train.py", True, False),
        ("./train.py", True, False),
        ("lib/../train.py", True, False),
        ("missing.py", False, False),
        ("../train.py", False, True),
        ("/etc/hostname", False, True),
    ],
)
def test_the_entry_point_is_packed_however_it_is_written(
    tmp_path: Path, entry_point: str, packed: bool, outside: bool
) -> None:
    read = tree(tmp_path / "src", entry_point, "train.py", "lib/a.py", "../train.py")
    assert (read.packs_entry_point, read.entry_point_is_outside) == (packed, outside)


def test_a_file_is_left_out_by_its_own_pattern_or_by_that_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("old\n*.bin")
    read = tree(tmp_path, "train.py", "train.py", "old/deep/a.py", "older.py", "x.bin")
    assert read.why_ignored("old/deep/a.py") == IgnoredPath("old/", "old", tmp_path / ".gitignore")
    assert read.why_ignored("x.bin") == IgnoredPath("x.bin", "*.bin", tmp_path / ".gitignore")
    assert read.why_ignored("older.py") is None


def test_the_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path)
    assert tree(Path("src")).folder == tmp_path / "src"


def test_a_packed_file_is_read_by_its_name_up_to_a_bound(tmp_path: Path) -> None:
    read = tree(tmp_path, "train.py", "train.py", "lib/a.py")
    assert (read.read("lib/a.py", 100), read.read("lib/a.py", 3)) == (b"x = 1\n", b"x =")


def test_what_is_not_packed_is_not_read(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("secret")
    read = tree(tmp_path, "train.py", "train.py", "secret")
    for name in ("secret", "missing", "../x"):
        with pytest.raises(KeyError):
            read.read(name, 100)


def test_a_file_that_is_gone_by_then_cannot_be_read(tmp_path: Path) -> None:
    read = tree(tmp_path)
    (tmp_path / "train.py").unlink()
    with pytest.raises(SourceError, match=r"train\.py cannot be packed"):
        read.read("train.py", 100)
