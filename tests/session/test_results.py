"""A place is named only where something lies there."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.backends.interface import JobState, JobStatus
from launcher.session.results import left_checkpoints, places_of


def job(checkpoints: object, output: object) -> JobStatus:
    return JobStatus("job", JobState.COMPLETED, "Completed", checkpoints=str(checkpoints), output=str(output))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in (
        "checkpoints",
        "hosts/algo-1/ml/model",
        "hosts/algo-1/ml/code",
        "hosts/algo-1/ml/output/data/slipway/algo-1",
        "hosts/algo-1/ml/output/data/flight_recorder",
    ):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "hosts/algo-1/ml/code/train.py").touch()
    (tmp_path / "hosts/algo-1/ml/output/data/slipway/algo-1/stdout.log").touch()
    (tmp_path / "hosts/algo-1/ml/output/data/flight_recorder/0").touch()
    return tmp_path


def test_empty_folders_and_what_is_ours_are_not_named(run: Path) -> None:
    assert list(places_of(job(run / "checkpoints", run / "hosts"))) == []
    assert list(places_of(job(run / "gone", run / "gone"))) == []


@pytest.mark.parametrize(
    ("file", "label", "place"),
    [
        ("checkpoints/5/model.pt", "checkpoints", "checkpoints"),
        ("hosts/algo-1/ml/model/model.pt", "output", "hosts"),
        ("hosts/algo-1/ml/output/data/plots/loss.png", "output", "hosts"),
        ("hosts/algo-1/ml/output/data/result.json", "output", "hosts"),
    ],
)
def test_what_the_script_wrote_is(run: Path, file: str, label: str, place: str) -> None:
    (run / file).parent.mkdir(parents=True, exist_ok=True)
    (run / file).touch()
    assert list(places_of(job(run / "checkpoints", run / "hosts"))) == [(label, str(run / place))]


def test_of_s3_is_said_only_what_goes_there() -> None:
    assert list(places_of(job("s3://b/checkpoints", "s3://b/output"))) == [
        ("checkpoints go to", "s3://b/checkpoints"),
        ("output goes to", "s3://b/output"),
    ]
    assert list(places_of(JobStatus("job", JobState.FAILED, "Failed"))) == []


def test_checkpoints_are_left_on_s3_or_where_a_file_lies(run: Path) -> None:
    assert left_checkpoints(job("s3://bucket/checkpoints/job", run))
    assert not left_checkpoints(job(run / "checkpoints", run))
    assert not left_checkpoints(JobStatus("job", JobState.STOPPED, "Stopped"))
    (run / "checkpoints" / "step-1.pt").touch()
    assert left_checkpoints(job(run / "checkpoints", run))
