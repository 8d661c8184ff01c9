"""The copying beside the ranks: what is said of it, and what a job whose checkpoints are lost ends with."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.container import Rendezvous, Task, parse_task
from slipway.failure import BootError
from slipway.host_assembly import Assembly
from slipway.processes.supervise import StopRequest
from slipway.saving.upload_places import Folder, S3Place
from slipway.saving.uploads import NoUploads, Uploads, begin_uploads
from tests.emulator.faults import DENIED_S3, SLOW_DOWN
from tests.slipway.saving.conftest import URI, EmulatedS3
from tests.slipway.saving.disks import save, tree
from tests.slipway.test_host_assembly import container, two_free_ports

COPYING = Task("none", 1, entry_point="train.py", copies_checkpoints=True)


@pytest.fixture
def alone() -> Iterator[Assembly]:
    assembly = Assembly(container(0, 1), Rendezvous("127.0.0.1", 1), "job-1")
    yield assembly
    assembly.close()


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    (tmp_path / "disk").mkdir()
    return tmp_path / "disk"


def begun(
    disk: Path, place: Folder | S3Place, assembly: Assembly, stop: StopRequest | None = None
) -> Uploads:
    uploads = Uploads(disk, place, assembly, stop or StopRequest(), uri=URI, look=0.02, quiet=0.0)
    uploads.begin()
    return uploads


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def test_what_is_saved_is_there_while_the_job_runs_and_the_rest_at_its_end(
    disk: Path, tmp_path: Path, alone: Assembly
) -> None:
    uploads = begun(disk, Folder(tmp_path / "prefix"), alone)
    first = save(1, disk)
    until((tmp_path / "prefix" / first / "manifest.json").exists)
    save(2, disk)
    (disk / "best.pt").write_text("x")
    uploads.end()
    assert tree(tmp_path / "prefix") == tree(disk)
    assert uploads.lost == []
    assert uploads.verdict(tmp_path / "failure") == 0
    assert not (tmp_path / "failure").exists()


def test_a_lost_checkpoint_fails_the_job_by_name_and_its_cause_is_said_once(
    disk: Path, tmp_path: Path, alone: Assembly, s3: EmulatedS3, capsys: pytest.CaptureFixture[str]
) -> None:
    uploads = begun(disk, S3Place(URI, "us-east-1"), alone)
    s3.server.rule("PutObject", *[DENIED_S3] * 1000)
    name = save(1, disk)
    (disk / "best.pt").write_text("x")
    uploads.end()
    printed = capsys.readouterr().err.splitlines()
    assert [line[:17] for line in printed] == ["slipway: warning:", "slipway: CKPT004 "]
    assert "S3 denies it (AccessDenied: User is not authorized" in printed[0]
    assert uploads.verdict(tmp_path / "failure") == 1
    assert (
        (tmp_path / "failure")
        .read_text()
        .startswith(
            f"CKPT004 algo-1: not copied to {URI} and lost with the host: {name}, best.pt: S3 denies it"
        )
    )


def test_an_older_checkpoint_that_did_not_go_is_no_loss(
    disk: Path, tmp_path: Path, alone: Assembly, s3: EmulatedS3
) -> None:
    save(1, disk)
    save(2, disk)
    # The newest goes first: its file and its manifest pass, what comes then is denied.
    s3.server.rule("PutObject", None, None, *[DENIED_S3] * 1000)
    uploads = Uploads(disk, S3Place(URI, "us-east-1"), alone, StopRequest(), uri=URI, look=5, quiet=0.0)
    uploads.begin()
    uploads.end()
    assert uploads.lost == []


def test_an_s3_that_is_busy_for_long_loses_nothing(
    disk: Path, tmp_path: Path, alone: Assembly, s3: EmulatedS3, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("slipway.saving.upload_places._ATTEMPTS", 1)
    uploads = begun(disk, S3Place(URI, "us-east-1"), alone)
    s3.server.rule("PutObject", SLOW_DOWN, SLOW_DOWN)
    name = save(1, disk)
    uploads.end()
    assert uploads.lost == []
    assert s3.keys() == [f"{name}/manifest.json", f"{name}/rank-00001.pt"]
    assert "S3 has answered SlowDown again and again" in capsys.readouterr().err


def test_what_no_time_was_left_for_is_said_and_never_half_there(
    disk: Path, tmp_path: Path, alone: Assembly
) -> None:
    stop = StopRequest()
    stop.request(15)
    assert stop.at is not None
    stop.at -= stop.grace + 1
    name = save(1, disk)
    uploads = begun(disk, Folder(tmp_path / "prefix"), alone, stop)
    uploads.end()
    assert uploads.lost == [
        f"CKPT004 algo-1: not copied to {URI} and lost with the host: {name}: the time that was left for it "
        "has passed"
    ]
    assert tree(tmp_path / "prefix") == {}


def test_the_first_host_gives_up_on_one_that_copies_nothing_and_names_it(
    disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    first = Assembly(container(0, 2), rendezvous, "job-1")
    name = save(1, disk, tmp_path / "other")
    uploads = begun(disk, Folder(tmp_path / "prefix"), first)
    uploads.end(patience=0.2)
    first.close()
    (lost,) = uploads.lost
    assert lost.endswith(f"lost with the host: {name}: the files of algo-2 did not come")


def test_two_hosts_that_end_at_different_times_lose_nothing(disk: Path, tmp_path: Path) -> None:
    rendezvous = Rendezvous("127.0.0.1", two_free_ports())
    first, second = (Assembly(container(number, 2), rendezvous, "job-1") for number in (0, 1))
    other = tmp_path / "other"
    save(1, disk, other)
    late = begun(disk, Folder(tmp_path / "prefix"), first)
    early = begun(other, Folder(tmp_path / "prefix"), second)
    early.end()
    late.end()
    first.close()
    assert early.lost == late.lost == []
    assert tree(tmp_path / "prefix") == {**tree(disk), **tree(other)}


def test_a_prefix_that_cannot_be_read_starts_no_script(disk: Path, alone: Assembly, s3: EmulatedS3) -> None:
    s3.server.rule("ListObjectsV2", DENIED_S3)
    with pytest.raises(BootError, match=rf"^CKPT004 algo-1 cannot read {URI}.*denies it.*not started"):
        begun(disk, S3Place(URI, "us-east-1"), alone)


def test_an_image_without_boto3_starts_no_script(
    disk: Path, alone: Assembly, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    environment = {"SLIPWAY_CHECKPOINT_URI": URI, "SLIPWAY_CHECKPOINT_DIR": str(disk)}
    with pytest.raises(BootError, match=r"^CKPT004 .*boto3.*Add boto3 to requirements.txt"):
        begin_uploads(COPYING, environment, alone, StopRequest())


def test_a_job_that_does_not_ask_for_it_gets_nothing(alone: Assembly) -> None:
    task = parse_task(["--strategy", "none", "--entry-point", "train.py"])
    environment = {"SLIPWAY_CHECKPOINT_URI": URI}
    assert isinstance(begin_uploads(task, environment, alone, StopRequest()), NoUploads)
    assert environment == {"SLIPWAY_CHECKPOINT_URI": URI}


def test_a_job_that_asks_for_it_tells_its_ranks_where_the_copies_are(
    disk: Path, tmp_path: Path, alone: Assembly
) -> None:
    words = ["--strategy", "none", "--entry-point", "train.py", "--checkpoint-sync", "slipway"]
    environment = {
        "SLIPWAY_CHECKPOINT_URI": str(tmp_path / "prefix"),
        "SLIPWAY_CHECKPOINT_DIR": str(disk),
    }
    begin_uploads(parse_task(words), environment, alone, StopRequest()).end()
    assert environment["SLIPWAY_CHECKPOINT_MIRROR"] == str(tmp_path / "prefix")


def test_a_folder_that_is_deleted_whole_takes_nothing_with_it(
    disk: Path, tmp_path: Path, alone: Assembly
) -> None:
    save(1, disk)
    uploads = begun(disk, Folder(tmp_path / "prefix"), alone)
    until(lambda: len(tree(tmp_path / "prefix")) == 2)
    shutil.rmtree(disk)
    uploads.end()
    assert len(tree(tmp_path / "prefix")) == 2
