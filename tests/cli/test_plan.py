"""`launch plan` beside something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tests.emulator.sagemaker import TrainingScript, emulated_training

RunLaunch = Callable[..., tuple[int, str, str]]
WriteJob = Callable[..., Path]


def test_a_plan_is_compared_with_a_dry_run_that_was_kept(
    run_launch: RunLaunch, write_job: WriteJob, tmp_path: Path
) -> None:
    file = write_job()
    _, kept, _ = run_launch(file, "--dry-run", "--output", "json")
    (tmp_path / "kept.json").write_text(kept)
    assert "no difference" in run_launch("plan", file, "--diff", tmp_path / "kept.json")[1]

    changed = ["--set", "resources.instance_count=3", "--output", "json"]
    code, out, _ = run_launch("plan", file, "--diff", tmp_path / "kept.json", *changed)
    assert code == 0
    assert '+    "InstanceCount": 3,' in json.loads(out)["diff"]


def test_a_plan_is_compared_with_a_job_of_the_account(
    run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
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
    code, _, err = run_launch("plan", write_job(), "--diff", tmp_path / "other.json")
    assert code == 2
    assert "other.json holds no request" in err


def test_a_pair_differs_by_the_compiler_alone(run_launch: RunLaunch, write_job: WriteJob) -> None:
    file = write_job(
        framework={"version": "1.13.1", "python": "py39"},
        resources={"instance_type": "ml.p3.16xlarge", "instance_count": 2},
        distribution={"strategy": "torch_xla"},
    )
    _, out, _ = run_launch("plan", file, "--pair", "--output", "json")
    compiled, native = (each["request"] for each in json.loads(out)["pair"])
    assert "trcomp" in compiled["AlgorithmSpecification"]["TrainingImage"]
    assert "trcomp" not in native["AlgorithmSpecification"]["TrainingImage"]
    assert compiled["ResourceConfig"] == native["ResourceConfig"]


def test_a_job_without_the_compiler_has_no_pair(run_launch: RunLaunch, write_job: WriteJob) -> None:
    code, _, err = run_launch("plan", write_job(), "--pair")
    assert code == 2
    assert "torch_xla" in err
