"""What goes into a job's `code` channel, and the temporary folders in which it is packed."""

from __future__ import annotations

import ast
import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

from launcher.source.folder_walk import SourceError
from launcher.source.packaging import (
    SOURCE_NAME,
    build_boot,
    build_source,
    collect_scratch_folders,
    package_digest,
    scratch_folder,
    without_docstrings,
)
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


@pytest.mark.parametrize("target", ["..", "../../out.py", "/etc/passwd", "/nowhere"])
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
            "slipway/signatures.json",
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


ROOT = Path(__file__).resolve().parent.parent.parent
FILES = sorted((ROOT / "slipway").rglob("*.py"))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""One line."""\nx = 1\n', '""\nx = 1\n'),
        ('def f():\n    """Two\n    lines."""\n    return 1\n', 'def f():\n    ""\n\n    return 1\n'),
        ('def f(): """All of it."""\n', 'def f(): ""\n'),
        ('"""é"""; x = "é"  # why\n', '""; x = "é"  # why\n'),
        ('x = """kept\ntext"""\n', 'x = """kept\ntext"""\n'),
        ('f("kept")\n', 'f("kept")\n'),
        ('X = 1\n"""What X is,\nin full."""\n\nY = 2\n', 'X = 1\n""\n\n\nY = 2\n'),
        (
            'try:\n  "a"\nexcept E:\n  "b"\nelse:\n  "c"\nfinally:\n  "d"\nmatch e:\n  case f:\n    "g"\n',
            'try:\n  ""\nexcept E:\n  ""\nelse:\n  ""\nfinally:\n  ""\nmatch e:\n  case f:\n    ""\n',
        ),
        (
            'class A:\n  async def b(c):\n    "d"\n    with e: "f"\n',
            'class A:\n  async def b(c):\n    ""\n    with e: ""\n',
        ),
    ],
)
def test_texts_that_are_statements_go_and_lines_stay(source: str, expected: str) -> None:
    assert without_docstrings(source) == expected
    assert source.count("\n") == expected.count("\n")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_the_boot_keeps_its_statements_at_their_lines(file: Path) -> None:
    source = file.read_text("utf-8")
    assert statements(without_docstrings(source)) == statements(source)


def statements(source: str) -> list[tuple[int, str]]:
    return [
        (node.lineno, ast.dump(node))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt)
        and not isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]


HOLDER = """
import sys, time
from launcher.source.packaging import scratch_folder
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
            assert collect_scratch_folders() == []
            assert own.is_dir()
        assert (held / "content" / "part").exists()
    finally:
        holder.kill()
        holder.communicate()
    with scratch_folder():
        assert not held.exists()


@pytest.mark.parametrize("mark", [None, b"", b"somebody's own"])
def test_a_folder_of_the_users_stays_however_old_it_is(folder: Path, mark: bytes | None) -> None:
    clone = folder / "slipway-main"
    clone.mkdir()
    (clone / "weights.pt").touch()
    if mark is not None:
        (clone / ".in-use").write_bytes(mark)
    os.utime(clone, (0, 0))
    assert collect_scratch_folders() == []
    with scratch_folder():
        pass
    assert (clone / "weights.pt").exists()


def test_links_files_other_names_and_other_peoples_folders_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "slipway").mkdir()
    (folder / "slipwayx").mkdir()
    (folder / "slipway-file").touch()
    (folder / "slipway-link").symlink_to(folder / "slipway", target_is_directory=True)
    assert collect_scratch_folders() == []
    with scratch_folder() as own:
        mark = (own.parent / ".in-use").read_bytes()
    (folder / "slipway-theirs").mkdir()
    (folder / "slipway-theirs" / ".in-use").write_bytes(mark)
    monkeypatch.setattr("os.getuid", lambda: 4711)
    assert collect_scratch_folders() == []
    assert len(list(folder.iterdir())) == 5
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    assert collect_scratch_folders() == [folder / "slipway-theirs"]
