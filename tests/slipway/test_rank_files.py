"""torchrun's files of its ranks' output: their middles are given back, and nobody misses a line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from slipway import rank_files
from slipway.rank_files import RankFiles

MB = 1024 * 1024

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says how far a file was read")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "none_x" / "attempt_0" / "0" / "stdout.log"
    file.parent.mkdir(parents=True)
    file.write_bytes(bytes(range(1, 129)) * (8 * MB // 128))
    return file


def room(file: Path) -> int:
    """What the file takes of the disk, in bytes."""
    return file.stat().st_blocks * 512


def test_what_was_read_is_given_back_but_for_the_beginning_and_the_end(tmp_path: Path, file: Path) -> None:
    whole = file.read_bytes()
    with file.open("rb") as reader:
        reader.seek(0, os.SEEK_END)
        RankFiles(tmp_path, first=MB, last=MB).trim(os.getpid())
    kept = file.read_bytes()
    assert len(kept) == len(whole)
    assert (kept[:MB], kept[-MB:]) == (whole[:MB], whole[-MB:])
    assert room(file) <= 2 * MB + 64 * 1024


def test_what_is_still_to_be_read_stays(tmp_path: Path, file: Path) -> None:
    whole = file.read_bytes()
    with file.open("rb", buffering=0) as reader, file.open("ab") as writer:
        writer.seek(0, os.SEEK_END)
        reader.seek(3 * MB)
        RankFiles(tmp_path, first=MB, last=MB).trim(os.getpid())
        assert reader.read() == whole[3 * MB :]
    assert room(file) == 6 * MB


def test_a_file_that_nobody_reads_yet_stays_whole(tmp_path: Path, file: Path) -> None:
    whole = file.read_bytes()
    RankFiles(tmp_path, first=MB, last=MB).trim(os.getpid())
    assert file.read_bytes() == whole


def test_a_file_system_that_cannot_is_said_once(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unable(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(rank_files, "_give_back", unable)
    monkeypatch.setattr(rank_files, "_SECONDS", 0.0)
    files = RankFiles(tmp_path, first=MB, last=MB)
    with file.open("rb") as reader:
        reader.seek(0, os.SEEK_END)
        files.trim(os.getpid())
        files.trim(os.getpid())
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("is kept whole, however much it is: Operation not supported")
