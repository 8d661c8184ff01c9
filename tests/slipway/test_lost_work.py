"""Work that dies with the host: what counts as such, and what does not."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from slipway import boot
from slipway.boot import Budget, tell_of_lost_work
from slipway.container import Container

STARTED = 1_000_000.0


class Host:
    """A host's folders after a run that began at STARTED."""

    def __init__(self, root: Path, current: str = "algo-1") -> None:
        self.root = root
        self.container = Container(root, ("algo-1", "algo-2"), current, "ml.c5.xlarge", None, {}, {}, {})
        self.environment = {
            "SM_MODEL_DIR": str(root / "model"),
            "SM_OUTPUT_DATA_DIR": str(root / "output" / "data"),
            "SLIPWAY_CHECKPOINT_DIR": str(root / "lustre"),
        }

    def file(self, name: str, size: int, age: float = -60.0) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.truncate(file, size)
        os.utime(file, (STARTED - age, STARTED - age))

    def tell(self) -> None:
        tell_of_lost_work(self.container, self.environment, STARTED)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    (tmp_path / "code").mkdir()
    return Host(tmp_path)


Said = Callable[[], str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    return lambda: capsys.readouterr().err


def test_checkpoints_below_the_code_folder_are_named(host: Host, said: Said) -> None:
    host.file("code/out/ckpt.pt", 1_200_000_000)
    host.file("code/out/config.ckpt", 20_000)
    host.file("code/out/args.json", 300)
    host.tell()
    assert said() == (
        "slipway: CKPT007 nothing was saved where it is kept; what the script wrote elsewhere, 2 files "
        "(1.2 GB) such as out/ckpt.pt, dies with the host. Write to SM_MODEL_DIR, SLIPWAY_CHECKPOINT_DIR or "
        "SM_OUTPUT_DATA_DIR\n"
    )


def test_so_is_much_of_anything(host: Host, said: Said) -> None:
    host.file("code/results/predictions.npy", 600_000)
    host.file("code/results/more.npy", 500_000)
    host.tell()
    assert "2 files (1.1 MB) such as results/predictions.npy" in said()


@pytest.mark.parametrize("kept", ["model/model.pt", "output/data/x.json", "lustre/1.pt", "checkpoints/1.pt"])
def test_where_anything_was_kept_nothing_is_said(host: Host, said: Said, kept: str) -> None:
    host.file("code/out/ckpt.pt", 20_000)
    host.file(kept, 1)
    host.tell()
    assert said() == ""


@pytest.mark.parametrize(
    "kept", ["output/data/slipway/algo-1/stdout.log", "output/data/flight_recorder/0", "checkpoints/"]
)
def test_what_is_ours_or_empty_is_no_work_that_was_kept(host: Host, said: Said, kept: str) -> None:
    host.file("code/out/ckpt.pt", 20_000)
    if kept.endswith("/"):
        (host.root / kept).mkdir()
    else:
        host.file(kept, 5_000)
    host.tell()
    assert "1 file (20 kB) such as out/ckpt.pt" in said()


def test_a_checkpoint_that_was_there_before_is_not_kept_by_this_job(host: Host, said: Said) -> None:
    host.file("checkpoints/old.pt", 20_000, age=60.0)
    host.file("code/out/ckpt.pt", 20_000)
    host.tell()
    assert "out/ckpt.pt" in said()


@pytest.mark.parametrize(
    ("name", "size", "age"),
    [
        ("code/model.pt", 20_000, 60.0),
        ("code/model.pt", 900, -60.0),
        ("code/notes.txt", 900_000, -60.0),
        ("code/data/MNIST/raw/train-images-idx3-ubyte", 47_000_000, -60.0),
        ("code/corpus.zip", 47_000_000, -60.0),
        ("code/__pycache__/train.dat", 2_000_000, -60.0),
        ("elsewhere/model.pt", 20_000, -60.0),
    ],
)
def test_source_downloads_and_small_files_are_no_work(
    host: Host, said: Said, name: str, size: int, age: float
) -> None:
    host.file(name, size, age)
    host.tell()
    assert said() == ""


def test_a_model_among_the_data_is_work(host: Host, said: Said) -> None:
    host.file("code/data/model.safetensors", 20_000)
    host.tell()
    assert "data/model.safetensors" in said()


def test_links_are_not_followed(host: Host, said: Said, tmp_path: Path) -> None:
    host.file("elsewhere/model.pt", 20_000)
    (tmp_path / "code" / "link").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (tmp_path / "code" / "model.pt").symlink_to(tmp_path / "elsewhere" / "model.pt")
    host.tell()
    assert said() == ""


def test_the_other_hosts_are_silent(tmp_path: Path, said: Said) -> None:
    host = Host(tmp_path, "algo-2")
    host.file("code/out/ckpt.pt", 20_000)
    host.tell()
    assert said() == ""


def test_what_cannot_be_looked_at_in_full_is_not_judged(
    host: Host, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.file("code/out/ckpt.pt", 20_000)
    host.file("code/out/other.pt", 20_000)
    monkeypatch.setattr(boot, "Budget", lambda: Budget(entries=2))
    host.tell()
    assert said() == ""
    monkeypatch.setattr(boot, "Budget", lambda: Budget(seconds=-1.0))
    host.tell()
    assert said() == ""


def test_of_a_shared_machine_the_scratch_folders_are_looked_at_that_the_code_names(
    host: Host, said: Said, tmp_path: Path
) -> None:
    with TemporaryDirectory(dir="/tmp") as named, TemporaryDirectory(dir="/tmp") as other:
        for folder in (named, other):
            file = Path(folder) / f"of-{Path(folder).name}.pt"
            file.write_bytes(bytes(2_000))
            os.utime(file, (STARTED + 60, STARTED + 60))
        (tmp_path / "code" / "train.py").write_text(f'SAVE = "{named}/."\n')
        host.tell()
    assert f"1 file (2 kB) such as {named}/of-" in said()


@pytest.mark.parametrize("by", ["a variable", "a hyperparameter"])
def test_and_those_that_the_job_names(host: Host, said: Said, by: str) -> None:
    with TemporaryDirectory(dir="/dev/shm") as named:
        (Path(named) / "ckpt").mkdir()
        file = Path(named) / "ckpt" / "latest.pt"
        file.write_bytes(bytes(2_000))
        os.utime(file, (STARTED + 60, STARTED + 60))
        if by == "a variable":
            host.environment["SCRATCH"] = named
        else:
            host.container = replace(host.container, hyperparameters={"out": named})
        host.tell()
    assert f"1 file (2 kB) such as {named}/ckpt/latest.pt" in said()


def test_what_lies_below_the_jobs_own_folder_is_counted_once(host: Host, said: Said) -> None:
    host.file("code/out/ckpt.pt", 5_000)
    host.environment["PWD"] = str(host.root / "code")
    host.tell()
    assert "1 file (5 kB) such as out/ckpt.pt" in said()


@pytest.mark.parametrize("variable", ["PWD", "OLDPWD", "TMPDIR"])
def test_where_somebody_stands_is_no_folder_that_the_job_names(host: Host, said: Said, variable: str) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        file = Path(folder) / "model.pt"
        file.write_bytes(bytes(2_000))
        os.utime(file, (STARTED + 60, STARTED + 60))
        host.environment[variable] = folder
        host.tell()
    assert said() == ""


def test_work_among_the_code_is_lost_however_much_lies_in_scratch_folders(
    host: Host, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.file("code/out/ckpt.pt", 5_000)
    monkeypatch.setattr(boot, "Budget", lambda: Budget(entries=40))
    with TemporaryDirectory(dir="/tmp") as folder:
        for number in range(60):
            (Path(folder) / f"{number}.txt").touch()
        host.environment["SCRATCH"] = folder
        host.tell()
    assert "1 file (5 kB) such as out/ckpt.pt" in said()
