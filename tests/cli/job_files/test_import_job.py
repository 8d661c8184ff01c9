"""`launch import`: the file that is written, what is said of it, and jobs by their names."""

from __future__ import annotations

import json
from pathlib import Path

import boto3
import pytest
import yaml
from moto import mock_aws

from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import use_test_keys
from tests.emulator.sagemaker import TrainingScript, emulated_training

SCRIPT = "#SBATCH --nodes=2\n#SBATCH --job-name=llama\nsrun torchrun --nproc_per_node 8 train.py\n"


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sbatch").write_text(SCRIPT)
    return Path("a.sbatch")


def test_a_job_file_is_written_by_the_jobs_name_and_never_over_another(
    run_launch: RunLaunch, script: Path
) -> None:
    code, _, err = run_launch("import", script)
    assert code == 0
    assert "llama.yaml was written" in err
    assert "open: resources.instance_type: on which hosts?" in err
    assert yaml.safe_load(Path("llama.yaml").read_text())["resources"] == {"instance_count": 2}
    code, _, err = run_launch("import", script)
    assert code == 2
    assert "llama.yaml is there already" in err


def test_it_is_printed_instead(run_launch: RunLaunch, script: Path) -> None:
    code, out, _ = run_launch("import", script, "--file", "-")
    assert code == 0
    assert yaml.safe_load(out)["name"] == "llama"
    assert not Path("llama.yaml").exists()


def test_json_has_the_job_its_questions_and_findings(run_launch: RunLaunch, script: Path) -> None:
    _, out, _ = run_launch("import", script, "--file", "jobs.yaml", "--output", "json")
    printed = json.loads(out)
    assert list(printed) == ["file", "job", "text", "questions", "findings"]
    assert printed["file"] == "jobs.yaml"
    assert {"field", "question", "example", "line", "cell"} == set(printed["questions"][0])


def test_a_training_job_comes_back_by_its_name(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    file = write_job(
        role_arn="arn:aws:iam::111122223333:role/r", output={"s3_uri": "s3://bucket/out"}, tags={"team": "a"}
    )
    _, out, _ = run_launch("plan", file, "--output", "json")
    request = json.loads(out)["request"]
    monkeypatch.chdir(tmp_path)
    with mock_aws(), emulated_training(TrainingScript()):
        boto3.client("sagemaker", region_name="us-west-2").create_training_job(**request)
        code, _, err = run_launch("import", request["TrainingJobName"], "--file", "back.yaml")
    assert code == 0, err
    back = yaml.safe_load(Path("back.yaml").read_text())
    assert back["output"] == {"s3_uri": "s3://bucket/out"}
    assert back["tags"] == {"team": "a"}


def test_a_name_that_nobody_knows_is_refused(run_launch: RunLaunch, monkeypatch: pytest.MonkeyPatch) -> None:
    use_test_keys(monkeypatch, "us-west-2")
    with mock_aws():
        code, _, err = run_launch("import", "no-such-job", "--file", "-")
    assert code == 3
    assert "no-such-job" in err
