"""The places of checkpoints: S3 and folders, and what a resuming rank asks of them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch

import slipway
from slipway.saving import upload_places
from slipway.saving.stored_checkpoints import step_of
from slipway.saving.upload_places import Folder, PlaceMirror, S3Place, mirror_from, transfer_failure
from tests.emulator.faults import DENIED_S3, EXPIRED_S3, SLOW_DOWN
from tests.slipway.saving.conftest import PREFIX, URI, EmulatedS3
from tests.slipway.saving.disks import never, save, tree
from tests.slipway.saving.test_manager import resumed, saved

LARGE = 20 * 1024 * 1024
"""Bytes that go in several parts."""


@pytest.fixture
def place(s3: EmulatedS3, monkeypatch: pytest.MonkeyPatch) -> S3Place:
    monkeypatch.setattr(upload_places, "_ATTEMPTS", 2)
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
    cause = transfer_failure(failed["large.pt"])
    assert (cause.kind, cause.passes) == (kind, passes)


def test_a_bucket_that_is_not_there_and_one_that_is_not_reached_are_told_apart(
    tmp_path: Path, s3: EmulatedS3, place: S3Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Exception) as missing:
        S3Place("s3://nowhere/x", "us-east-1").sizes()
    assert transfer_failure(missing.value).kind == "no bucket"
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{unused.getsockname()[1]}")
        with pytest.raises(Exception) as unreached:
            S3Place(URI, "us-east-1").sizes()
    assert transfer_failure(unreached.value).kind == "no route"
    assert "gateway endpoint to S3" in transfer_failure(unreached.value).sentence


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
    assert transfer_failure(failed["large.pt"]).kind == "no time"
    assert s3.keys() == []


def test_a_full_disk_is_told_as_such(place: S3Place) -> None:
    assert transfer_failure(OSError(28, "No space left on device", "/x")).kind == "no space"
    assert (
        transfer_failure(PermissionError(13, "Permission denied", "/x")).sentence == "Permission denied (/x)"
    )


@pytest.fixture
def prefix(tmp_path: Path, s3: EmulatedS3, monkeypatch: pytest.MonkeyPatch) -> S3Place:
    """The checkpoints of the steps 1 to 3 on S3, of a host whose disk is lost."""
    saved(tmp_path / "lost", 1, 2, 3)
    place = S3Place(URI, "us-east-1")
    files = {
        path.relative_to(tmp_path / "lost").as_posix(): path for path in (tmp_path / "lost").rglob("*.*")
    }
    assert place.put({name: path for name, path in files.items() if path.is_file()}, never) == {}
    monkeypatch.setenv("SLIPWAY_CHECKPOINT_MIRROR", URI)
    monkeypatch.setenv("SLIPWAY_CHECKPOINT_DIR", str(tmp_path / "disk"))
    return place


def resumed_here() -> tuple[int | None, float]:
    model = torch.nn.Linear(3, 2)
    got = slipway.CheckpointManager().resume(model=model)
    return got and got.step, float(model.weight[0, 0].detach())


def test_what_the_disk_has_lost_is_fetched(tmp_path: Path, prefix: S3Place) -> None:
    assert resumed_here() == (3, 3)
    newest = max(path.name for path in (tmp_path / "disk").iterdir())
    assert tree(tmp_path / "disk" / newest) == tree(tmp_path / "lost" / newest)


def test_one_without_a_manifest_is_passed_over(tmp_path: Path, prefix: S3Place, s3: EmulatedS3) -> None:
    newest = max(path.name for path in (tmp_path / "lost").iterdir())
    prefix.remove([f"{newest}/manifest.json"])
    assert resumed_here() == (2, 2)


def test_one_whose_files_are_not_what_they_were_is_refused_aloud(
    tmp_path: Path, prefix: S3Place, s3: EmulatedS3, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(path.name for path in (tmp_path / "lost").iterdir())
    content = bytearray((tmp_path / "lost" / newest / "model.pt").read_bytes())
    content[len(content) // 2] ^= 1
    s3.client.put_object(Bucket="checkpoints", Key=f"{PREFIX}{newest}/model.pt", Body=bytes(content))
    assert resumed_here() == (2, 2)
    assert f"CKPT009 {newest}: model.pt has another SHA-256" in capsys.readouterr().err


def test_a_prefix_that_cannot_be_read_is_an_error_and_no_start_from_nothing(
    prefix: S3Place, s3: EmulatedS3
) -> None:
    s3.server.rule("ListObjectsV2", DENIED_S3)
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT009 the mirror .* cannot be read: S3 denies it"):
        resumed_here()


def test_a_manager_with_a_folder_of_its_own_gets_nothing_from_the_jobs(
    tmp_path: Path, prefix: S3Place
) -> None:
    assert resumed(tmp_path / "another") == (None, -1)


def test_only_the_newest_are_offered_and_nothing_that_is_no_checkpoint(tmp_path: Path) -> None:
    names = [save(step, tmp_path / "prefix") for step in range(1, 26)]
    (tmp_path / "prefix" / "epoch-1").mkdir()
    (tmp_path / "prefix" / "epoch-1" / "manifest.json").write_text("{}")
    offered = PlaceMirror(Folder(tmp_path / "prefix")).manifests()
    assert list(offered) == names[:4:-1]
    assert [step_of(name) for name in offered][:2] == [25, 24]


def test_what_the_disk_has_no_room_for_is_not_fetched(tmp_path: Path) -> None:
    class Endless(Folder):
        def sizes(self) -> dict[str, int]:
            return {"step-000000000001-0a1b2c3d/model.pt": 2**60}

    with pytest.raises(OSError, match="1152921504606846976 bytes do not fit"):
        PlaceMirror(Endless(tmp_path)).fetch("step-000000000001-0a1b2c3d", ["model.pt"], tmp_path)


def test_without_copying_there_is_no_mirror() -> None:
    assert mirror_from({"SLIPWAY_CHECKPOINT_URI": URI}) is None
