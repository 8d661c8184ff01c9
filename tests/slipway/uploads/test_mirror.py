"""A resume on a host whose disk is lost: from the prefix, verified, and from the newest whole one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import slipway
from slipway.checkpoints.shelf import step_of
from slipway.uploads.bucket import S3Place
from slipway.uploads.folder import Folder
from slipway.uploads.mirror import PlaceMirror, mirror_of
from tests.emulator.faults import DENIED_S3
from tests.slipway.checkpoints.test_manager import resumed, saved
from tests.slipway.uploads.conftest import PREFIX, URI, EmulatedS3
from tests.slipway.uploads.disks import never, save, tree


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
    assert mirror_of({"SLIPWAY_CHECKPOINT_URI": URI}) is None
