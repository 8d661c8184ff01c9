"""Saving and resuming of one process, with real files, and with what becomes of files."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import slipway
from slipway.saving import stored_checkpoints, write_checkpoint


def model() -> nn.Linear:
    return nn.Linear(3, 2)


def filled(value: float) -> nn.Linear:
    made = model()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.fill_(value)
    return made


def saved(folder: Path, *steps: int, keep: int = 3, **what: Any) -> list[Path]:
    """Checkpoints of a model filled with the number of the step, the oldest first."""
    manager = slipway.CheckpointManager(folder, keep=keep)
    for step in steps:
        manager.save(step, model=filled(step), **what)
    manager.wait()
    return sorted(folder.iterdir())


def resumed(folder: Path, **options: Any) -> tuple[int | None, float]:
    """The step and what the model is filled with."""
    made = filled(-1)
    got = slipway.CheckpointManager(folder, **options).resume(model=made)
    return got and got.step, float(made.weight[0, 0].detach())


def test_without_any_checkpoint_nothing_is_changed(tmp_path: Path) -> None:
    assert resumed(tmp_path / "none") == (None, -1)


def test_the_newest_is_resumed_from_and_the_last_ones_are_kept(tmp_path: Path) -> None:
    kept = saved(tmp_path, 1, 2, 3, 10, keep=2)
    assert [stored_checkpoints.step_of(folder.name) for folder in kept] == [3, 10]
    assert resumed(tmp_path) == (10, 10)


def test_optimizer_extra_and_random_numbers_go_on(tmp_path: Path) -> None:
    one = model()
    optimizer = torch.optim.AdamW(one.parameters())
    one(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    manager = slipway.CheckpointManager(tmp_path)
    extra = {"loss": 0.5, "best": torch.ones(2), "names": ["a", ("b", None)]}
    manager.save(1, model=one, optimizer=optimizer, extra=extra)
    drawn = (random.random(), float(torch.rand(1)))
    manager.wait()
    other = model()
    fresh = torch.optim.AdamW(other.parameters(), lr=9.0)
    got = slipway.CheckpointManager(tmp_path).resume(model=other, optimizer=fresh)
    assert got is not None and got.extra["names"] == ["a", ("b", None)] and got.extra["best"].sum() == 2
    assert (random.random(), float(torch.rand(1))) == drawn
    assert fresh.state_dict()["param_groups"] == optimizer.state_dict()["param_groups"]
    assert torch.equal(fresh.state[other.weight]["exp_avg"], optimizer.state[one.weight]["exp_avg"])


def test_training_may_go_on_while_a_step_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = filled(1)
    manager = slipway.CheckpointManager(tmp_path)
    # The thread has everything at hand that it writes, whenever it comes to write it.
    monkeypatch.setattr(manager, "_write", lambda writer, snapshot: held.append((writer, snapshot)))
    held: list[Any] = []
    manager.save(1, model=made)
    manager.wait()
    with torch.no_grad():
        made.weight.fill_(7)
    ((writer_, snapshot),) = held
    writer_.write(snapshot)
    assert resumed(tmp_path) == (1, 1)


def test_a_step_that_is_saved_is_not_saved_again(tmp_path: Path) -> None:
    manager = slipway.CheckpointManager(tmp_path)
    manager.save(5, model=filled(1))
    manager.save(5, model=filled(2))
    manager.wait()
    assert resumed(tmp_path) == (5, 1)


def flip_a_bit(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def replace_by_a_link(file: Path) -> None:
    file.rename(file.with_name("other"))
    file.symlink_to("other")


DAMAGE = {
    "cut": lambda folder: os.truncate(folder / "model.pt", 100),
    "flipped": lambda folder: flip_a_bit(folder / "model.pt"),
    "flipped in the rank's file": lambda folder: flip_a_bit(folder / "rank-00000.pt"),
    "removed": lambda folder: (folder / "model.pt").unlink(),
    "a link": lambda folder: replace_by_a_link(folder / "model.pt"),
    "half a manifest": lambda folder: os.truncate(folder / "manifest.json", 100),
    "an empty manifest": lambda folder: os.truncate(folder / "manifest.json", 0),
    "a manifest of another step": lambda folder: (folder / "manifest.json").write_text(
        (folder / "manifest.json").read_text().replace('"step": 2', '"step": 3')
    ),
    "a manifest that is a folder": lambda folder: (
        (folder / "manifest.json").unlink(),
        (folder / "manifest.json").mkdir(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_aloud_and_the_one_before_taken(
    tmp_path: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    _, newest = saved(tmp_path, 1, 2)
    DAMAGE[damage](newest)
    assert resumed(tmp_path) == (1, 1)
    assert f"slipway: CKPT009 {newest.name}: " in capfd.readouterr().err
    saved(tmp_path, 3)
    assert newest not in list(tmp_path.iterdir()), "what is damaged goes when the next one is complete"


@pytest.mark.parametrize("damage", DAMAGE)
def test_where_none_can_be_used_training_does_not_start_anew_in_silence(tmp_path: Path, damage: str) -> None:
    _, only = saved(tmp_path, 1, 2)
    shutil.rmtree(_)
    DAMAGE[damage](only)
    with pytest.raises(
        slipway.CheckpointError, match=r"^CKPT009 none of the 1 checkpoints .*remove the folder"
    ):
        resumed(tmp_path)


def test_what_is_damaged_does_not_count_among_those_to_keep(tmp_path: Path) -> None:
    _, second = saved(tmp_path, 1, 2, keep=2)
    (second / "model.pt").unlink()
    kept = saved(tmp_path, 3, keep=2)
    assert [stored_checkpoints.step_of(folder.name) for folder in kept] == [1, 3]


def test_the_leftover_of_a_killed_save_neither_blocks_nor_counts_and_goes(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    leftover = tmp_path / "step-000000000002-00000000"
    shutil.copytree(next(tmp_path.iterdir()), leftover)
    (leftover / "manifest.json").unlink()
    (leftover / "model.pt.77.partial").write_text("half")
    assert resumed(tmp_path) == (1, 1)
    saved(tmp_path, 2)
    assert not leftover.exists() and resumed(tmp_path) == (2, 2)


def test_files_that_are_no_checkpoints_stay(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "step-1").mkdir()
    saved(tmp_path, 1, 2, keep=1)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_full_disk_is_raised_at_the_next_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = slipway.CheckpointManager(tmp_path)
    manager.save(1, model=filled(1))
    manager.wait()

    def full(temporary: Path, file: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(file))

    with monkeypatch.context() as patch:
        patch.setattr(write_checkpoint, "put_file", full)
        manager.save(2, model=filled(2))
        with pytest.raises(
            slipway.CheckpointError, match=r"^DISK001 rank 0 on .*step 2 .*No space left.*keep="
        ):
            manager.save(3, model=filled(3))
    manager.save(3, model=filled(3))
    manager.wait()
    assert resumed(tmp_path) == (3, 3)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="Linux has a full device")
def test_a_real_full_disk_is_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every write to this device fails as on a full disk, inside of torch's own writer.
    opened = Path.open

    def onto_it(path: Path, mode: str = "r", **options: Any) -> Any:
        return opened(Path("/dev/full") if "w" in mode else path, mode, **options)

    monkeypatch.setattr(Path, "open", onto_it)
    manager = slipway.CheckpointManager(tmp_path)
    manager.save(1, model=nn.Linear(300, 300))
    with pytest.raises(slipway.CheckpointError, match=r"^DISK001 "):
        manager.wait()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    manager = slipway.CheckpointManager(tmp_path / "file")
    manager.save(1, model=filled(1))
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT004 .*Not a directory"):
        manager.wait()


def test_what_could_not_be_loaded_again_is_refused_when_it_is_saved(tmp_path: Path) -> None:
    manager = slipway.CheckpointManager(tmp_path)
    with pytest.raises(TypeError, match=r"extra\['path'\] is a pathlib"):
        manager.save(1, model=filled(1), extra={"path": tmp_path})


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (nn.Linear(3, 4), "CKPT009 weight is 2x3 in the checkpoint and 4x3 in the model"),
        (nn.Sequential(nn.Linear(3, 2)), r"CKPT005 .*2 keys of the model are missing \(0.weight, 0.bias\)"),
    ],
    ids=["shapes", "names"],
)
def test_another_models_checkpoint_is_refused_and_nothing_is_loaded(
    tmp_path: Path, other: nn.Module, said: str
) -> None:
    saved(tmp_path, 1)
    before = [parameter.detach().clone() for parameter in other.parameters()]
    with pytest.raises(slipway.CheckpointError, match=f"^{said}"):
        slipway.CheckpointManager(tmp_path).resume(model=other)
    assert all(torch.equal(one, two) for one, two in zip(before, other.parameters(), strict=True))


def test_another_optimizer_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    one = filled(1)
    saved(tmp_path, 1, optimizer=torch.optim.SGD(one.parameters(), momentum=0.9))
    made = filled(-1)
    optimizer = torch.optim.SGD([made.weight])
    with pytest.raises(
        slipway.CheckpointError, match=r"^CKPT009 .*\[2\] parameters by group, this one has \[1\]"
    ):
        slipway.CheckpointManager(tmp_path).resume(model=made, optimizer=optimizer)
    assert float(made.weight[0, 0].detach()) == -1


def test_what_was_not_saved_cannot_be_resumed(tmp_path: Path) -> None:
    saved(tmp_path, 1)
    optimizer = torch.optim.SGD(model().parameters())
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT009 .*holds no optimizer: it was saved without"):
        slipway.CheckpointManager(tmp_path).resume(optimizer=optimizer)


class Hostile:
    def __reduce__(self) -> Any:
        return os.system, ("touch ran",)


def test_a_hostile_checkpoint_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder,) = saved(tmp_path / "shelf", 1)
    monkeypatch.chdir(tmp_path)
    torch.save({"model": Hostile()}, folder / "model.pt")
    manifest = json.loads((folder / "manifest.json").read_text())
    for entry in manifest["files"]:
        if entry["name"] == "model.pt":
            entry.update(
                bytes=(folder / "model.pt").stat().st_size,
                sha256=stored_checkpoints.file_digest(folder / "model.pt"),
            )
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(
        slipway.CheckpointError, match=r"^CKPT009 .*model.pt is not what CheckpointManager saves"
    ):
        resumed(tmp_path / "shelf")
    assert not (tmp_path / "ran").exists()


class Folder:
    """A mirror that is a folder on this disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def manifests(self) -> Mapping[str, str]:
        return {one.name: (one / "manifest.json").read_text() for one in self.folder.iterdir()}

    def fetch(self, name: str, files: Sequence[str], folder: Path) -> None:
        for file in files:
            shutil.copy(self.folder / name / file, folder / file)


def test_what_the_disk_has_lost_is_fetched_from_the_mirror_and_counts_then(tmp_path: Path) -> None:
    saved(tmp_path / "mirror", 1)
    assert resumed(tmp_path / "disk", mirror=Folder(tmp_path / "mirror")) == (1, 1)
    assert resumed(tmp_path / "disk") == (1, 1)


def test_what_is_damaged_on_the_disk_is_fetched_again(tmp_path: Path) -> None:
    (folder,) = saved(tmp_path / "disk", 1)
    shutil.copytree(tmp_path / "disk", tmp_path / "mirror")
    flip_a_bit(folder / "model.pt")
    assert resumed(tmp_path / "disk", mirror=Folder(tmp_path / "mirror")) == (1, 1)


def test_what_the_mirror_gives_is_verified(tmp_path: Path) -> None:
    (folder,) = saved(tmp_path / "mirror", 1)
    flip_a_bit(folder / "model.pt")
    with pytest.raises(slipway.CheckpointError, match=r"^CKPT009 none of .*model.pt has another SHA-256"):
        resumed(tmp_path / "disk", mirror=Folder(tmp_path / "mirror"))


def test_the_folder_is_the_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_CHECKPOINT_DIR", str(tmp_path))
    assert slipway.CheckpointManager().folder == tmp_path
    monkeypatch.delenv("SLIPWAY_CHECKPOINT_DIR")
    with pytest.raises(ValueError, match="SLIPWAY_CHECKPOINT_DIR is not set"):
        slipway.CheckpointManager()
