"""A prefix on S3 as the place of checkpoints, with an S3 that fails in its ways."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from slipway.uploads import bucket
from slipway.uploads.bucket import S3Place
from slipway.uploads.causes import cause_of
from tests.emulator.faults import DENIED_S3, EXPIRED_S3, SLOW_DOWN
from tests.slipway.uploads.conftest import URI, EmulatedS3
from tests.slipway.uploads.disks import never

LARGE = 20 * 1024 * 1024
"""Bytes that go in several parts."""


@pytest.fixture
def place(s3: EmulatedS3, monkeypatch: pytest.MonkeyPatch) -> S3Place:
    monkeypatch.setattr(bucket, "_ATTEMPTS", 2)
    return S3Place(URI, "us-east-1")


def written(file: Path, content: bytes) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def test_files_go_there_and_come_back_with_their_times(
    tmp_path: Path, s3: EmulatedS3, place: S3Place
) -> None:
    content = {"model.pt": os.urandom(LARGE), "deep/optimizer.pt": b"small", "empty.pt": b""}
    files = {name: written(tmp_path / "here" / name, each) for name, each in content.items()}
    os.utime(files["model.pt"], ns=(5, 1_700_000_000_123_456_789))
    assert place.put(files, never) == {}
    assert place.progress >= LARGE
    assert s3.keys() == sorted(content)
    assert place.sizes() == {name: len(each) for name, each in content.items()}
    assert place.changed("model.pt") == 1_700_000_000_123_456_789
    back = {name: tmp_path / "back" / name for name in content}
    assert place.get(back) == {}
    assert {name: file.read_bytes() for name, file in back.items()} == content
    assert back["model.pt"].stat().st_mtime_ns == 1_700_000_000_123_456_789
    place.remove(["model.pt", "not there"])
    assert s3.keys() == ["deep/optimizer.pt", "empty.pt"]
    assert place.changed("model.pt") is None


def test_a_text_is_read_up_to_its_bound(tmp_path: Path, place: S3Place) -> None:
    place.put({"manifest.json": written(tmp_path / "a", b"x" * 100)}, never)
    assert place.text("manifest.json", 100) == b"x" * 100
    with pytest.raises(ValueError, match=r"manifest.json has more than 99 bytes"):
        place.text("manifest.json", 99)


def test_a_busy_s3_is_asked_again(tmp_path: Path, s3: EmulatedS3, place: S3Place) -> None:
    s3.server.rule("PutObject", SLOW_DOWN)
    assert place.put({"a.pt": written(tmp_path / "a.pt", b"x")}, never) == {}
    assert s3.keys() == ["a.pt"]


@pytest.mark.few_cases("fault0-busy-True", "fault1-denied-False")
@pytest.mark.parametrize(
    ("fault", "kind", "passes"),
    [
        (SLOW_DOWN, "busy", True),
        (DENIED_S3, "denied", False),
        (EXPIRED_S3, "credentials", False),
    ],
)
def test_one_file_that_fails_is_named_with_its_cause_and_the_others_are_there(
    tmp_path: Path, s3: EmulatedS3, place: S3Place, fault: object, kind: str, passes: bool
) -> None:
    s3.server.rule("CreateMultipartUpload", *[fault] * 5)  # type: ignore[list-item]
    files = {"large.pt": written(tmp_path / "a", bytes(LARGE)), "small.pt": written(tmp_path / "b", b"x")}
    failed = place.put(files, never)
    assert list(failed) == ["large.pt"]
    assert s3.keys() == ["small.pt"]
    cause = cause_of(failed["large.pt"])
    assert (cause.kind, cause.passes) == (kind, passes)


def test_a_bucket_that_is_not_there_and_one_that_is_not_reached_are_told_apart(
    tmp_path: Path, s3: EmulatedS3, place: S3Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception) as missing:
        S3Place("s3://nowhere/x", "us-east-1").sizes()
    assert cause_of(missing.value).kind == "no bucket"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(Exception) as unreached:
            S3Place(URI, "us-east-1").sizes()
    assert cause_of(unreached.value).kind == "no route"
    assert "gateway endpoint to S3" in cause_of(unreached.value).sentence


def test_when_time_is_over_what_runs_is_given_up_and_nothing_half_is_there(
    tmp_path: Path, s3: EmulatedS3, place: S3Place
) -> None:
    gate = s3.server.hold("UploadPart", answered=False)

    def over() -> bool:
        if gate._reached.is_set():
            gate.release()
            return True
        return False

    failed = place.put({"large.pt": written(tmp_path / "a", bytes(LARGE))}, over)
    assert cause_of(failed["large.pt"]).kind == "no time"
    assert s3.keys() == []


def test_a_full_disk_is_told_as_such(place: S3Place) -> None:
    assert cause_of(OSError(28, "No space left on device", "/x")).kind == "no space"
    assert cause_of(PermissionError(13, "Permission denied", "/x")).sentence == "Permission denied (/x)"
