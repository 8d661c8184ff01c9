"""What goes into a job's `code` channel."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from launcher.source.errors import SourceError
from launcher.source.packaging import SOURCE_NAME, build_boot, build_source, package_digest
from launcher.source.tree import SourceTree, read_source


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    (folder / "lib").mkdir(parents=True)
    (folder / "train.py").write_text("print(1)\n")
    (folder / "lib" / "data.py").write_text("x = 1\n")
    return folder


def tree_of(folder: Path) -> SourceTree:
    return read_source(folder, "train.py")


def names(archive: Path) -> list[str]:
    with tarfile.open(archive) as members:
        return members.getnames()


def test_the_same_source_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    os.utime(source / "train.py", (1, 1))
    (source / "train.py").chmod(0o600)
    build_source(tree_of(source), tmp_path / "b.tar.gz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_members_are_sorted_and_anonymous(source: Path, tmp_path: Path) -> None:
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o755)
    build_source(tree_of(source), tmp_path / "a.tar.gz")
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
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    assert names(tmp_path / "a.tar.gz") == ["lib/data.py", "train.py"]


@pytest.mark.parametrize("target", ["..", "../../out.py", "/etc/passwd", "nowhere"])
def test_links_are_refused_by_name(source: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "out.py").touch()
    (source / "lib" / "link").symlink_to(target)
    with pytest.raises(SourceError, match=r"lib/link is a symbolic link"):
        build_source(tree_of(source), tmp_path / "a.tar.gz")


def test_a_link_is_packed_as_a_file_of_its_own(source: Path, tmp_path: Path) -> None:
    (source / "lib" / "link.py").symlink_to("../train.py")
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        member = archive.getmember("lib/link.py")
        content = archive.extractfile(member)
        assert member.isfile() and content is not None and content.read() == b"print(1)\n"


def test_special_files_are_refused_by_name(source: Path, tmp_path: Path) -> None:
    os.mkfifo(source / "pipe")
    with pytest.raises(SourceError, match=r"pipe is neither"):
        build_source(tree_of(source), tmp_path / "a.tar.gz")


def test_a_folder_that_is_missing_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not there"):
        build_source(tree_of(tmp_path / "missing"), tmp_path / "a.tar.gz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="holds no files"):
        build_source(tree_of(tmp_path / "empty"), tmp_path / "a.tar.gz")


def test_the_boot_is_small(tmp_path: Path) -> None:
    build_boot(tmp_path / "a.pyz")
    assert (tmp_path / "a.pyz").stat().st_size < 220_000


def test_the_boot_is_deterministic_and_starts(tmp_path: Path) -> None:
    for name in ("a.pyz", "b.pyz"):
        build_boot(tmp_path / name)
    assert (tmp_path / "a.pyz").read_bytes() == (tmp_path / "b.pyz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.pyz") as archive:
        assert {
            "__main__.py",
            "slipway/__init__.py",
            "slipway/boot.py",
            "slipway/signatures/signatures.json",
        } <= set(archive.namelist())
    shown = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "a.pyz"), "--help"], capture_output=True, text=True, check=True
    )
    assert "--entry-point" in shown.stdout


@pytest.mark.parametrize("size", [0, 511, 512, 513, 3_000_000])
def test_the_digest_is_that_of_the_archive_before_it_is_compressed(
    source: Path, tmp_path: Path, size: int
) -> None:
    (source / "data.bin").write_bytes(os.urandom(size))
    (source / os.fsdecode(b"caf\xe9.py")).write_text("x")
    (source / ("long" * 40)).touch()
    tree = tree_of(source)
    build_source(tree, tmp_path / "a.tar.gz")
    with gzip.open(tmp_path / "a.tar.gz") as archive:
        assert hashlib.sha256(archive.read()).hexdigest() == tree.digest


def test_what_is_packed_is_what_lay_in_the_folder(source: Path, tmp_path: Path) -> None:
    (source / "data.bin").write_bytes(content := os.urandom(3_000_000))
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    with tarfile.open(tmp_path / "a.tar.gz") as archive:
        archive.extractall(tmp_path / "out", filter="data")
    assert (tmp_path / "out" / "data.bin").read_bytes() == content
    assert tree_of(tmp_path / "out").digest == tree_of(source).digest


def test_the_archive_is_one_for_every_reader_of_tar(source: Path, tmp_path: Path) -> None:
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    listed = subprocess.run(
        ["tar", "-tzf", str(tmp_path / "a.tar.gz")], capture_output=True, text=True, check=True
    )
    assert (listed.stdout.split(), listed.stderr) == (["lib/data.py", "train.py"], "")


@pytest.mark.parametrize("change", ["content", "name", "mode", "more"])
def test_the_digest_knows_every_difference(source: Path, change: str) -> None:
    before = tree_of(source).digest
    script = source / "train.py"
    if change == "content":
        script.write_text("print(2)\n")
    elif change == "name":
        script.rename(source / "train2.py")
    elif change == "mode":
        script.chmod(0o755)
    else:
        (source / "more.py").touch()
    assert tree_of(source).digest != before


def test_the_digest_does_not_know_where_and_when(source: Path, tmp_path: Path) -> None:
    before = tree_of(source).digest
    os.utime(source / "train.py", (1, 1))
    moved = source.rename(tmp_path / "moved")
    assert tree_of(moved).digest == before


def test_the_toolkits_archive_is_other_code_than_the_boots(source: Path) -> None:
    digest = str(tree_of(source).digest)
    assert package_digest(digest, SOURCE_NAME) != package_digest(digest, "sourcedir.tar.gz")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("shrinks", r"train\.py cannot be packed: it has become shorter"),
        ("grows", r"train\.py cannot be packed: it has grown"),
        ("goes", r"train\.py cannot be packed"),
        ("changes", "no longer what was planned"),
    ],
)
def test_a_file_that_changes_before_it_is_packed_is_refused(
    source: Path, tmp_path: Path, change: str, says: str
) -> None:
    tree = tree_of(source)
    if change == "goes":
        (source / "train.py").unlink()
    else:
        texts = {"shrinks": "", "grows": "print(1)\nprint(2)\n", "changes": "print(2)\n"}
        (source / "train.py").write_text(texts[change])
    with pytest.raises(SourceError, match=says):
        build_source(tree, tmp_path / "a.tar.gz")


def test_what_comes_after_the_reading_is_not_packed(source: Path, tmp_path: Path) -> None:
    tree = tree_of(source)
    (source / "late.py").write_text("x")
    build_source(tree, tmp_path / "a.tar.gz")
    assert names(tmp_path / "a.tar.gz") == ["lib/data.py", "train.py"]


def test_names_of_any_bytes_are_packed(source: Path, tmp_path: Path) -> None:
    (source / os.fsdecode(b"caf\xe9.py")).write_text("x")
    (source / "größe.py").write_text("x")
    build_source(tree_of(source), tmp_path / "a.tar.gz")
    assert len(names(tmp_path / "a.tar.gz")) == 4
