"""Output that is kept within bounds: its beginning, its end, and nothing else of a flood."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from slipway.kept_log import PARTS, KeptLog

FIRST, LAST = 1000, 800


def parts(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}*"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "below" / "log"


def test_what_is_usual_is_kept_whole_in_one_file(file: Path) -> None:
    log = KeptLog(file, first=FIRST, last=LAST)
    log.write(b"one\n" * 100)
    log.write(b"two\n" * 100)
    log.close()
    assert parts(file) == [file]
    assert file.read_bytes() == b"one\n" * 100 + b"two\n" * 100


@pytest.mark.few_cases("64")
@pytest.mark.parametrize("chunk", [1, 7, 64, 5000])
def test_of_a_flood_the_beginning_and_the_end_are_kept_in_whole_lines(file: Path, chunk: int) -> None:
    told: list[str] = []
    log = KeptLog(file, first=FIRST, last=LAST, tell=told.append)
    stream = b"".join(b"line %d\n" % number for number in range(20_000 if chunk > 7 else 2_000))
    for start in range(0, len(stream), chunk):
        log.write(stream[start : start + chunk])
        assert sum(part.stat().st_size for part in parts(file)) <= FIRST + LAST + 3 * LAST // PARTS
    log.close()
    first, *later = parts(file)
    assert stream.startswith(first.read_bytes())
    assert first.stat().st_size > FIRST - 20
    end = b"".join(part.read_bytes() for part in later)
    assert stream.endswith(end)
    assert len(end) >= LAST
    for part in later:
        offset = int(part.name.rpartition("-")[2])
        assert stream[offset:].startswith(part.read_bytes())
        assert not part.stat().st_size or part.read_bytes().startswith(b"line ")
    assert len(told) == 1


def test_a_line_without_an_end_is_kept_within_the_same_bounds(file: Path) -> None:
    log = KeptLog(file, first=FIRST, last=LAST)
    for _ in range(1000):
        log.write(b"." * 999)
    assert sum(part.stat().st_size for part in parts(file)) <= FIRST + LAST + 3 * LAST // PARTS


def test_what_is_in_the_file_already_is_its_beginning(file: Path) -> None:
    file.parent.mkdir()
    file.write_bytes(b"." * 990 + b"\n")
    log = KeptLog(file, first=FIRST, last=LAST)
    log.write(b"a line\n")
    log.write(b"another\n")
    log.write(b"a third\n")
    assert [part.name for part in parts(file)] == ["log", "log-000000000001006"]


def test_what_found_no_room_is_counted_and_said_when_there_is_room_again(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    log = KeptLog(file, tell=told.append)
    log.write(b"before\n")

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(log, "_put", full)
        log.write(b"12345\n")
        log.write(b"67890\n")
    log.write(b"after\n")
    assert file.read_bytes() == b"before\n\nslipway: 12 bytes of the output are missing here\nafter\n"
    assert told == [f"of the output not all can be kept in {file}: No space left on device"]
