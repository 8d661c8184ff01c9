"""A source that is an archive already: its files, its digest, and what of hostile ones is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.source import archive as packed
from launcher.source.folder_walk import SourceError
from launcher.source.packaging import build_source
from launcher.source.tree import SourceTree, read_source
from slipway.script import unpack_source, verify_source

Member = tuple[str, bytes] | tarfile.TarInfo


def archive_of(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member)
            else:
                name, content = member
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def special(name: str, kind: bytes, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    return member


TRAIN: Member = ("./train.py", b"import deepspeed\n")


def read(path: Path) -> SourceTree:
    return read_source(path, "train.py", {"deepspeed", "torch"})


def test_an_archive_is_read_like_the_folder_that_it_holds(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.tar.gz", special(".", tarfile.DIRTYPE), TRAIN, ("lib/a.py", b"x"))
    tree = read(path)
    assert (tree.exists, tree.has_entry_point, tree.packs_entry_point, tree.problems) == (
        True,
        True,
        True,
        (),
    )
    assert [(file.name, file.size) for file in tree.files] == [("lib/a.py", 1), ("train.py", 17)]
    assert (tree.folder, tree.scripts, tree.names) == (path, ("train.py",), {"deepspeed"})


def test_its_digest_is_what_the_boot_computes(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.tgz", TRAIN, ("data.bin", bytes(3_000_000)))
    tree = read(path)
    assert tree.digest == hashlib.sha256(gzip.decompress(path.read_bytes())).hexdigest()
    assert tree.archive_bytes == len(gzip.decompress(path.read_bytes()))
    verify_source(path, str(tree.digest))


def test_it_goes_to_the_hosts_as_it_is(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.tar.gz", special("lib", tarfile.DIRTYPE), TRAIN, ("lib/run.sh", b"x"))
    build_source(read(path), tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").read_bytes() == path.read_bytes()
    unpack_source(tmp_path / "b.tar.gz", tmp_path / "out")
    assert (tmp_path / "out" / "lib" / "run.sh").read_text() == "x"


@pytest.mark.parametrize("change", ["other", "longer", "broken", "gone"])
def test_another_archive_than_was_planned_is_refused(tmp_path: Path, change: str) -> None:
    path = archive_of(tmp_path / "a.tar.gz", TRAIN)
    tree = read(path)
    if change == "other":
        archive_of(path, ("train.py", b"import os"))
    elif change == "longer":
        path.write_bytes(path.read_bytes() + gzip.compress(bytes(10_000)))
    elif change == "broken":
        path.write_bytes(path.read_bytes()[:50])
    else:
        path.unlink()
    with pytest.raises(SourceError, match=r"no longer what was planned|cannot be packed"):
        build_source(tree, tmp_path / "b.tar.gz")


@pytest.mark.parametrize(
    ("member", "says"),
    [
        pytest.param(("/etc/passwd", b""), "a path outside", id="absolute"),
        pytest.param(("a/../../x", b""), "a path outside", id="above"),
        pytest.param(special("a", tarfile.SYMTYPE, "train.py"), "neither a plain file", id="link"),
        pytest.param(special("a", tarfile.LNKTYPE, "train.py"), "neither a plain file", id="hard link"),
        pytest.param(special("a", tarfile.FIFOTYPE), "neither a plain file", id="pipe"),
        pytest.param(special("a", tarfile.CHRTYPE), "neither a plain file", id="device"),
        pytest.param(("train.py", b"other"), "'train.py' twice", id="twice"),
        pytest.param(("train.py/a.py", b""), "both as a file and as a folder", id="file and folder"),
        pytest.param(("x" * 256, b""), "a name too long", id="long name"),
        pytest.param(("x/" * 2100 + "y", b""), "a name too long", id="long path"),
    ],
)
def test_what_no_host_could_or_should_unpack_is_refused(tmp_path: Path, member: Member, says: str) -> None:
    tree = read(archive_of(tmp_path / "a.tar.gz", TRAIN, member))
    (problem,) = tree.problems
    assert says in problem.message and tree.digest is None
    assert tree.has_entry_point


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    links = [special(f"link{number}", tarfile.SYMTYPE, "x") for number in range(30)]
    problems = read(archive_of(tmp_path / "a.tar.gz", TRAIN, *links)).problems
    assert len(problems) == packed.MOST_PROBLEMS + 1
    assert "10 more such problems" in problems[-1].message


def bomb(path: Path) -> None:
    """Small, and endless once it is unpacked."""
    archive_of(path, TRAIN, ("zeros", bytes(2_000_000)))


def many(path: Path) -> None:
    archive_of(path, *((f"{number}", b"") for number in range(101)))


def long_header(path: Path) -> None:
    """A pax header that says of itself to be of 6 MB, which tarfile would read as one."""
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 6_000_000
    path.write_bytes(gzip.compress(header.tobuf() + bytes(1_000_000)))


def sparse(path: Path) -> None:
    """A file of a petabyte, by GNU's sparse format, in some hundred bytes."""
    header = tarfile.TarInfo("huge")
    header.pax_headers = {
        "GNU.sparse.size": str(10**15),
        "GNU.sparse.map": "0,0",
        "GNU.sparse.numblocks": "1",
    }
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(header)


@pytest.mark.parametrize(
    ("write", "says"),
    [
        pytest.param(bomb, "holds more than 1 MB; every host", id="bomb"),
        pytest.param(many, "holds more than 100 files", id="many"),
        pytest.param(long_header, "a header of 6 MB", id="header"),
        pytest.param(sparse, "neither a plain file", id="sparse"),
        pytest.param(lambda path: path.write_bytes(b""), "cannot be read as tar.gz", id="empty"),
        pytest.param(lambda path: path.write_bytes(b"PK\x03\x04"), "cannot be read as tar.gz", id="zip"),
        pytest.param(
            lambda path: path.write_bytes(gzip.compress(b"x" * 5000)), "cannot be read", id="no tar"
        ),
        pytest.param(lambda path: archive_of(path), "it holds no files", id="no files"),
    ],
)
def test_a_hostile_or_broken_archive_is_refused_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], object], says: str
) -> None:
    monkeypatch.setattr(packed, "MOST_SOURCE_BYTES", 1_000_000 if write is bomb else 100_000_000)
    monkeypatch.setattr(packed, "MOST_MEMBERS", 100)
    path = tmp_path / "a.tar.gz"
    write(path)
    tree = read(path)
    assert says in tree.problems[0].message, tree.problems[0].message
    assert tree.digest is None


def test_a_cut_archive_is_refused(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.tar.gz", TRAIN, ("data.bin", bytes(range(256)) * 4000))
    path.write_bytes(path.read_bytes()[:-20])
    assert "cannot be read as tar.gz" in read(path).problems[0].message


def test_small_text_files_of_an_archive_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MOST_KEPT", 100)
    members = (TRAIN, ("requirements.txt", b"einops\n"), ("large.txt", bytes(101)), ("x.bin", b"x"))
    tree = read(archive_of(tmp_path / "a.tar.gz", *members))
    assert (tree.read("requirements.txt", 100), tree.read("requirements.txt", 3)) == (b"einops\n", b"ein")
    for name in ("large.txt", "x.bin"):
        with pytest.raises(SourceError, match="is not read"):
            tree.read(name, 10)
    with pytest.raises(KeyError):
        tree.read("missing.txt", 10)


def test_what_is_kept_of_an_archive_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_MOST_KEPT_TOGETHER", 25)
    tree = read(archive_of(tmp_path / "a.tar.gz", *((f"{number}.txt", b"x" * 10) for number in range(5))))
    assert sorted(tree.kept) == ["0.txt", "1.txt"]


def test_scripts_below_the_one_folder_of_an_archive_are_named(tmp_path: Path) -> None:
    path = archive_of(tmp_path / "a.tar.gz", ("repo-main/train.py", b""), ("repo-main/README", b""))
    tree = read(path)
    assert (tree.has_entry_point, tree.scripts) == (False, ("repo-main/train.py",))


@pytest.mark.parametrize(
    ("name", "says"), [("a.zip", "neither a folder nor a .tar.gz"), ("b", "is not there")]
)
def test_what_is_no_source_says_so(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "a.zip").touch()
    assert says in read(tmp_path / name).problems[0].message
