"""What torchrun keeps of its ranks is masked before it lies where it stays."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slipway.kept_masked import kept_masked
from slipway.masking import Masking

MASKING = Masking(["planted-token"])
MB = 1024 * 1024


def written(folder: Path, name: str, content: bytes, time: float = 1_000_000.5) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    os.utime(file, (time, time))
    return file


def test_without_secrets_the_files_are_where_they_stay(tmp_path: Path) -> None:
    with kept_masked(tmp_path / "logs", Masking()) as folder:
        assert folder == tmp_path / "logs"


def test_the_copies_are_masked_and_have_the_times_of_the_files(tmp_path: Path) -> None:
    with kept_masked(tmp_path / "logs", MASKING) as folder:
        written(folder, "run/attempt_0/0/stderr.log", b"a planted-token\n" * 200_000)
        written(folder, "run/attempt_0/0/error.json", b'{"message": "planted-token"}', 2_000_000.25)
        (folder / "run" / "elsewhere").symlink_to("/etc/passwd")
        os.utime(folder / "run" / "attempt_0", (5.0, 5.0))
        assert not (tmp_path / "logs").exists()
        assert not str(folder).startswith(str(tmp_path))
        assert folder.stat().st_mode & 0o777 == 0o700
    rank = tmp_path / "logs" / "run" / "attempt_0" / "0"
    assert (rank / "stderr.log").read_bytes() == b"a ***\n" * 200_000
    assert (rank / "error.json").read_text() == '{"message": "***"}'
    assert (rank / "error.json").stat().st_mtime == 2_000_000.25
    assert rank.parent.stat().st_mtime == 5.0
    assert not (tmp_path / "logs" / "run" / "elsewhere").is_symlink()
    assert not folder.exists()


def test_a_hole_stays_a_hole(tmp_path: Path) -> None:
    with kept_masked(tmp_path / "logs", MASKING) as folder:
        file = folder / "stdout.log"
        with file.open("wb") as writing:
            writing.write(b"begin planted-token\n")
            writing.seek(1024 * MB)
            writing.write(b"planted-token end\n")
        if file.stat().st_blocks * 512 > 100 * MB:
            pytest.skip("the file system has no holes")
    copy = tmp_path / "logs" / "stdout.log"
    assert copy.stat().st_blocks * 512 < 100 * MB
    with copy.open("rb") as reading:
        assert reading.read(10) == b"begin ***\n"
        reading.seek(-8, os.SEEK_END)
        assert reading.read() == b"*** end\n"


def test_a_file_that_ends_in_a_hole_or_holds_nothing_is_copied(tmp_path: Path) -> None:
    with kept_masked(tmp_path / "logs", MASKING) as folder:
        (folder / "empty").touch()
        with (folder / "cut").open("wb") as writing:
            writing.write(b"planted-token")
            writing.truncate(8 * MB)
    assert (tmp_path / "logs" / "empty").read_bytes() == b""
    assert (tmp_path / "logs" / "cut").read_bytes().rstrip(b"\0") == b"***"


def test_copies_that_cannot_be_written_are_told_of_and_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").touch()
    with kept_masked(tmp_path / "logs", MASKING) as folder:
        written(folder, "stdout.log", b"planted-token")
    told = f"slipway: what the ranks printed cannot be kept in {tmp_path / 'logs'}: File exists\n"
    assert capsys.readouterr().err == told
    assert not folder.exists()


def test_an_error_in_between_is_nobody_elses(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="mine"), kept_masked(tmp_path / "logs", MASKING) as folder:
        raise OSError("mine")
    assert not folder.exists()
