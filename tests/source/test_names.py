"""Which names a job's source uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.source.archive import digest_of
from launcher.source.errors import SourceError
from launcher.source.names import names_in
from launcher.source.tree import read_source
from launcher.source.walking import walk

WANTED = ("DistributedSampler", "fully_shard")


def names_of(folder: Path) -> frozenset[str]:
    return read_source(folder, "train.py", WANTED).names


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        pytest.param("train.py", "sampler = data.DistributedSampler(x)", True, id="used"),
        pytest.param("lib/data.py", "from d import DistributedSampler as S", True, id="in a module below"),
        pytest.param("train.py", "# DistributedSampler", False, id="in a comment"),
        pytest.param("train.py", "'''DistributedSampler'''", False, id="in a string"),
        pytest.param("train.py", "MyDistributedSampler()", False, id="in another name"),
        pytest.param("train.py", "DistributedSampler(\n  '''", True, id="before a syntax error"),
        pytest.param("train.sh", "DistributedSampler", False, id="in no Python file"),
        pytest.param(".venv/lib/d.py", "DistributedSampler()", False, id="in a hidden folder"),
        pytest.param("venv/lib/d.py", "DistributedSampler()", False, id="in installed packages"),
    ],
)
def test_names_are_found_where_code_uses_them(tmp_path: Path, file: str, text: str, found: bool) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    assert ("DistributedSampler" in names_of(tmp_path)) is found


def test_no_folder_has_no_names(tmp_path: Path) -> None:
    assert names_of(tmp_path / "missing") == frozenset()


def test_bytes_that_are_no_text_are_no_crash(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes(b"\xff\xfe\x00DistributedSampler(\x00")
    assert names_of(tmp_path) <= {"DistributedSampler"}


def test_a_pipe_is_not_read_whether_it_is_ignored_or_came_after_the_look(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1")
    (tmp_path / "late.py").write_text("x = 1")
    os.mkfifo(tmp_path / "ignored.py")
    (tmp_path / ".slipwayignore").write_text("ignored.py")
    assert read_source(tmp_path, "train.py", WANTED).problems == ()

    files = walk(tmp_path).files
    (tmp_path / "late.py").unlink()
    os.mkfifo(tmp_path / "late.py")
    assert names_in(files, WANTED) == frozenset()
    with pytest.raises(SourceError, match=r"late\.py cannot be packed: it is a pipe"):
        digest_of(files)


def test_what_is_not_packed_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text("DistributedSampler(x)")
    (tmp_path / ".slipwayignore").write_text("old.py")
    assert names_of(tmp_path) == frozenset()


@pytest.mark.parametrize(("others", "found"), [(199, True), (200, False)])
def test_two_hundred_files_are_read_those_beside_the_script_first(
    tmp_path: Path, others: int, found: bool
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "first.py").write_text("DistributedSampler(x)")
    for number in range(others):
        (tmp_path / f"z{number}.py").touch()
    assert bool(names_of(tmp_path)) is found


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("DistributedSampler(x)\n" + "#" * 1_000_000)
    assert names_of(tmp_path) == frozenset()
