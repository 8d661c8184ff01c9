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
from launcher.source import files as source_files_module
from launcher.source.files import largest, source_files
from launcher.source.packaging import SOURCE_NAME, build_boot, build_source, code_digest, package_digest


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


def packed(source: Path) -> list[str]:
    return [file.name for file in source_files(source)]


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("ignored", "expected"),
    [
        ({".gitignore": "*.bin"}, ["a.py", "data/big.csv", "lib/b.py"]),
        ({".gitignore": "data/"}, ["a.py", "lib/b.py", "lib/model.bin", "model.bin"]),
        ({".gitignore": "/model.bin"}, ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({".gitignore": "*.bin\n!lib/model.bin"}, ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({"lib/.gitignore": "*.bin"}, ["a.py", "data/big.csv", "lib/b.py", "model.bin"]),
        ({".gitignore": "*.bin", "lib/.gitignore": "!*.bin"},
         ["a.py", "data/big.csv", "lib/b.py", "lib/model.bin"]),
        ({".gitignore": "lib/", "lib/.gitignore": "!*"}, ["a.py", "data/big.csv", "model.bin"]),
        ({".slipwayignore": "data\n*.bin\n"}, ["a.py", "lib/b.py"]),
        ({".gitignore": "*.bin", ".slipwayignore": "!/model.bin\ndata/"}, ["a.py", "lib/b.py", "model.bin"]),
        ({".gitignore": "# comment\n\n*.py\n"}, ["data/big.csv", "lib/model.bin", "model.bin"]),
    ],
)  # fmt: skip
def test_what_is_ignored_stays_behind(tmp_path: Path, ignored: dict[str, str], expected: list[str]) -> None:
    folder = tmp_path / "src"
    write(folder, "a.py", "model.bin", "data/big.csv", "lib/b.py", "lib/model.bin")
    for name, text in ignored.items():
        (folder / name).write_text(text)
    assert [name for name in packed(folder) if "ignore" not in name] == expected


def test_git_itself_agrees_about_what_is_ignored(tmp_path: Path) -> None:
    folder = tmp_path / "src"
    write(
        folder,
        "a.py",
        "b.log",
        "keep.log",
        "out/x",
        "deep/out/y",
        "deep/z.tmp",
        "deep/doc/a.txt",
        "w/1",
        "w/2",
    )
    (folder / ".gitignore").write_text("*.log\n!keep.log\n/out\ndeep/**/*.txt\nw/*\n!w/2\n")
    (folder / "deep" / ".gitignore").write_text("*.tmp\nout/\n")
    subprocess.run(["git", "init", "--quiet", folder], check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--cached", "--exclude-standard"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(packed(folder)) == sorted(listed.stdout.split())


def test_the_repositorys_patterns_hold_for_a_source_folder_inside(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", "job/src/train.py", "job/src/.env", "job/src/weights.bin")
    (tmp_path / ".gitignore").write_text(".env\n")
    (tmp_path / "job" / ".gitignore").write_text("/src/*.bin\n")
    assert packed(tmp_path / "job" / "src") == ["train.py"]


def test_a_source_folder_that_git_ignores_is_packed_all_the_same(tmp_path: Path) -> None:
    write(tmp_path, ".git/HEAD", "build/train.py")
    (tmp_path / ".gitignore").write_text("build/\n*.py\n")
    assert packed(tmp_path / "build") == ["train.py"]


def test_patterns_above_a_folder_without_a_repository_mean_nothing(tmp_path: Path) -> None:
    write(tmp_path, "src/train.py")
    (tmp_path / ".gitignore").write_text("*.py\n")
    assert packed(tmp_path / "src") == ["train.py"]


@pytest.mark.parametrize("pattern", ["data", "data/", "/data"])
def test_an_ignored_link_is_nobodys_concern(source: Path, tmp_path: Path, pattern: str) -> None:
    (source / "data").symlink_to(tmp_path)
    (source / ".slipwayignore").write_text(pattern)
    assert packed(source) == [".slipwayignore", "lib/data.py", "train.py"]


def test_a_pattern_that_cannot_be_read_is_refused(source: Path) -> None:
    (source / ".slipwayignore").write_text("!\n")
    with pytest.raises(BackendError, match="a pattern in"):
        source_files(source)


def test_a_folder_of_which_everything_is_ignored_is_refused(source: Path) -> None:
    (source / ".slipwayignore").write_text("*\n")
    with pytest.raises(BackendError, match="not ignored"):
        source_files(source)


def test_more_than_code_can_be_is_refused_with_what_holds_most(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_files_module, "MOST_BYTES", 5_000_000)
    (source / "lib" / "weights.bin").write_bytes(bytes(6_000_000))
    with pytest.raises(BackendError, match=r"lib/ \(6 MB\), train\.py"):
        source_files(source)


def test_the_largest_are_counted_by_their_top_level_name(source: Path) -> None:
    (source / "lib" / "more").write_bytes(bytes(100))
    assert largest(source_files(source)) == [("lib/", 106), ("train.py", 9)]


def test_the_digest_of_a_plan_is_that_of_what_is_packed(source: Path, tmp_path: Path) -> None:
    planned = code_digest(source_files(source), SOURCE_NAME)
    assert package_digest(build_source(source, tmp_path / "a.tar.gz"), SOURCE_NAME) == planned


@pytest.mark.parametrize("change", ["content", "name", "mode", "more"])
def test_the_digest_knows_every_difference(source: Path, change: str) -> None:
    before = code_digest(source_files(source), SOURCE_NAME)
    script = source / "train.py"
    if change == "content":
        script.write_text("print(2)\n")
    elif change == "name":
        script.rename(source / "train2.py")
    elif change == "mode":
        script.chmod(0o755)
    else:
        (source / "more.py").touch()
    assert code_digest(source_files(source), SOURCE_NAME) != before


def test_the_digest_does_not_know_where_and_when(source: Path, tmp_path: Path) -> None:
    before = code_digest(source_files(source), SOURCE_NAME)
    os.utime(source / "train.py", (1, 1))
    moved = source.rename(tmp_path / "moved")
    assert code_digest(source_files(moved), SOURCE_NAME) == before


def test_the_toolkits_archive_is_other_code_than_the_boots(source: Path) -> None:
    files = source_files(source)
    assert code_digest(files, SOURCE_NAME) != code_digest(files, "sourcedir.tar.gz")


def test_a_file_that_shrinks_while_it_is_packed_is_refused(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = source_files(source)
    (source / "train.py").write_text("")
    monkeypatch.setattr("launcher.source.packaging.source_files", lambda folder: files)
    with pytest.raises(BackendError, match=r"train\.py cannot be packed"):
        build_source(source, tmp_path / "a.tar.gz")


def test_names_of_any_bytes_are_packed(source: Path, tmp_path: Path) -> None:
    (source / os.fsdecode(b"caf\xe9.py")).write_text("x")
    (source / "größe.py").write_text("x")
    build_source(source, tmp_path / "a.tar.gz")
    assert len(names(tmp_path / "a.tar.gz")) == 4
