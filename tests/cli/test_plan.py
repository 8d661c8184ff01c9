"""`launch plan` beside something else, and findings: what, where, what to do, and no secret."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from launcher.cli.interaction import console
from launcher.cli.plan import show_findings
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Location, Severity, Stage
from launcher.program.program import MOST_BYTES
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training


def test_a_plan_is_compared_with_a_job_of_the_account(
    run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    file = write_job(role_arn="arn:aws:iam::111122223333:role/r", output={"s3_uri": "s3://bucket/out"})
    _, out, _ = run_launch("plan", file, "--output", "json")
    request = json.loads(out)["request"]
    with mock_aws(), emulated_training(TrainingScript()):
        boto3.client("sagemaker", region_name="us-west-2").create_training_job(**request)
        arguments = ["--diff", request["TrainingJobName"], "--set", "resources.volume_size_gb=99"]
        _, out, _ = run_launch("plan", file, *arguments, "--output", "json")
    assert any('"VolumeSizeInGB": 99' in line for line in json.loads(out)["diff"])


def test_a_file_without_a_request_is_refused(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("[1]")
    (tmp_path / "deep.json").write_text("[" * 1_000_000)
    os.mkfifo(tmp_path / "pipe.json")
    for name in ("other.json", "deep.json", "pipe.json"):
        code, _, err = run_launch("plan", write_job(), "--diff", tmp_path / name)
        assert code == 2
        assert f"{name} holds no request" in err


def test_plans_and_dry_runs_have_the_same_parts_in_json(run_launch: RunLaunch, write_job: WriteJob) -> None:
    for command in (["plan", write_job()], [write_job(), "--dry-run"]):
        printed = json.loads(run_launch(*command, "--output", "json")[1])
        assert list(printed) == ["job", "request", "version_choice", "findings", "source", "requirements"]


Shown = Callable[..., str]

FILE = """name: a_b
environment:
  # why
  TOKEN: planted-value

hyperparameters: {key: planted-value}
code:
  entry_point: train.py
"""


@pytest.fixture
def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shown:
    file = tmp_path / "job.yaml"
    file.write_text(FILE)

    def show(line: int, column: int) -> str:
        place = Location(str(file), line, column)
        finding = job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend it.", location=place)
        show_findings(console(), [finding])
        return capsys.readouterr().out

    return show


def test_the_line_is_shown_with_a_caret_below_the_place(shown: Shown) -> None:
    lines = [line.rstrip() for line in shown(8, 3).splitlines()]
    text = next(line for line in lines if "entry_point: train.py" in line)
    caret = lines[lines.index(text) + 1]
    assert caret.index("^") == text.index("entry_point")


@pytest.mark.parametrize("line", [4, 6])
def test_a_line_that_may_hold_a_secret_is_not_shown(shown: Shown, line: int) -> None:
    printed = shown(line, 3)
    assert "planted-value" not in printed
    assert f":{line}:3" in printed


def test_credentials_of_an_address_are_hidden_in_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "requirements.txt"
    file.write_text("--index https://me:planted@host/simple --bogus\n")
    place = Location(str(file), 1, file.read_text().index("--bogus") + 1)
    show_findings(
        console(), [job_file.INVALID_VALUE.finding(Stage.SPEC, "is wrong", remedy="Mend", location=place)]
    )
    text, caret = [line.rstrip() for line in capsys.readouterr().out.splitlines()][-3:-1]
    assert "planted" not in text
    assert caret.index("^") == text.index("--bogus")


def test_a_place_outside_of_the_file_has_no_excerpt(shown: Shown) -> None:
    assert "^" not in shown(99, 1)


@pytest.mark.parametrize("lay", [os.mkfifo, lambda path: sparse(path, MOST_BYTES + 1)])
def test_of_a_file_that_is_not_read_to_be_judged_no_line_is_shown(
    lay: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def read(*_: object) -> str:
        raise AssertionError("read to be shown")

    lay(tmp_path / "odd")
    monkeypatch.setattr("linecache.getline", read)
    place = Location(str(tmp_path / "odd"), 1, 1)
    show_findings(console(), [job_file.INVALID_VALUE.finding(Stage.SPEC, "is odd", location=place)])
    assert "^" not in capsys.readouterr().out


def sparse(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def test_the_worst_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    order = [Severity.INFO, Severity.ERROR, Severity.WARNING]
    show_findings(
        console(),
        [job_file.INVALID_VALUE.finding(Stage.SPEC, severity.value, severity=severity) for severity in order],
    )
    printed = capsys.readouterr().out
    assert printed.index("error") < printed.index("warning") < printed.index("info")
