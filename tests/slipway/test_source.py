"""Unpacking the user's source."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from slipway.failure import BootError
from slipway.source import find_entry_point, unpack


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
