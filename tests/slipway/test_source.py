"""Unpacking the user's source."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from slipway.failure import BootError
from slipway.source import find_entry_point, unpack, verify


def archive_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def digest_of(archive: Path) -> str:
    return hashlib.sha256(gzip.decompress(archive.read_bytes())).hexdigest()


def test_the_submitted_archive_is_accepted_however_it_is_compressed(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1" * 5000))
    digest = digest_of(archive)
    verify(archive, digest)
    archive.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes()), 1))
    verify(archive, digest)


@pytest.mark.parametrize(
    "member", [entry("train.py"), entry("more.py")], ids=["another content", "a member more"]
)
def test_another_archive_than_the_submitted_one_is_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    ours = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"))
    theirs = archive_of(tmp_path / "theirs.tar.gz", (entry("train.py"), b"1"), (member, b"2"))
    with pytest.raises(BootError, match=r"^CODE002 .*theirs\.tar\.gz is not the code") as refusal:
        verify(theirs, digest_of(ours))
    assert digest_of(ours)[:12] in str(refusal.value)
    assert digest_of(theirs)[:12] in str(refusal.value)


def test_what_follows_the_end_of_the_archive_counts_too(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"))
    digest = digest_of(archive)
    archive.write_bytes(archive.read_bytes() + gzip.compress(b"more"))
    with pytest.raises(BootError, match="is not the code"):
        verify(archive, digest)


@pytest.mark.parametrize(
    "content",
    [None, b"", b"no gzip", gzip.compress(b"x" * 5000)[:-20]],
    ids=["missing", "empty", "no gzip", "cut"],
)
def test_an_archive_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    archive = tmp_path / "source.tar.gz"
    if content is not None:
        archive.write_bytes(content)
    with pytest.raises(BootError, match=r"^CODE002 .*source\.tar\.gz"):
        verify(archive, "0" * 64)


def test_files_and_folders_are_extracted(tmp_path: Path) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"), (entry("lib/a.py"), b"2"))
    unpack(archive, tmp_path / "code")
    assert (tmp_path / "code" / "lib" / "a.py").read_bytes() == b"2"
    assert find_entry_point(tmp_path / "code", "train.py").read_bytes() == b"1"


@pytest.mark.parametrize(
    "member",
    [
        entry("../evil.py"),
        entry("lib/../../evil.py"),
        entry("/tmp/evil.py"),
        entry("evil.py", tarfile.SYMTYPE, "/etc/passwd"),
        entry("evil.py", tarfile.SYMTYPE, "train.py"),
        entry("evil.py", tarfile.LNKTYPE, "../outside"),
        entry("evil", tarfile.FIFOTYPE),
        entry("evil", tarfile.CHRTYPE),
    ],
    ids=lambda member: f"{member.name}-{member.type.decode()}-{member.linkname}",
)
def test_what_could_leave_the_folder_is_refused_and_nothing_is_extracted(
    tmp_path: Path, member: tarfile.TarInfo
) -> None:
    archive = archive_of(tmp_path / "source.tar.gz", (entry("train.py"), b"1"), (member, b""))
    with pytest.raises(BootError, match=r"^CODE002 .*evil"):
        unpack(archive, tmp_path / "code")
    assert list((tmp_path / "code").iterdir()) == []


def test_links_are_refused_also_without_the_filter_of_newer_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)  # 3.11.2 has none
    archive = archive_of(tmp_path / "source.tar.gz", (entry("evil", tarfile.SYMTYPE, "/etc"), b""))
    with pytest.raises(BootError):
        unpack(archive, tmp_path / "code")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(BootError, match=r"^CODE002 .*source\.tar\.gz"):
        unpack(tmp_path / "source.tar.gz", tmp_path / "code")


def test_a_missing_entry_point_is_named_with_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "main.py").touch()
    with pytest.raises(BootError, match=r"^CODE002 .*train\.py.*main\.py"):
        find_entry_point(tmp_path, "train.py")
