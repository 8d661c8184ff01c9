"""Followers as processes of their own, over a real connection: killed in the middle, and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from tests.backends.sagemaker.conftest import REGION
from tests.emulator.faulty_server import FaultyServer, faulty_server
from tests.emulator.sagemaker import TrainingScript, emulated_training

FOLLOWER = """
import sys

from launcher.backends.interface import Backend, Polling
from launcher.cli.app import main

Backend.polling = Polling(seconds=0, seconds_per_host=0)
main(["logs", sys.argv[1], "--follow"])
"""

NAME = "digits-0unique"
LINES = {f"algo-{host}": [f"line {number} of {host}" for number in range(20)] for host in (1, 2)}
ROOT = Path(__file__).parents[3]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FaultyServer]:
    """A job of two hosts on a server."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", REGION)
    with faulty_server() as server, emulated_training(TrainingScript(logs=LINES)):
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        boto3.client("sagemaker", region_name=REGION).create_training_job(
            TrainingJobName=NAME,
            AlgorithmSpecification={"TrainingImage": "image", "TrainingInputMode": "File"},
            RoleArn="arn:aws:iam::111122223333:role/training",
            OutputDataConfig={"S3OutputPath": "s3://bucket/"},
            ResourceConfig={"InstanceType": "ml.m5.xlarge", "InstanceCount": 2, "VolumeSizeInGB": 1},
            StoppingCondition={"MaxRuntimeInSeconds": 60},
        )
        server.calls.clear()
        yield server


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FOLLOWER, NAME],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.few_cases("GetLogEvents-True")
@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize("operation", ["DescribeTrainingJob", "DescribeLogStreams", "GetLogEvents"])
def test_who_follows_again_after_a_kill_sees_every_line_once_and_the_job_went_on(
    server: FaultyServer, tmp_path: Path, operation: str, answered: bool
) -> None:
    gate = server.hold(operation, answered=answered)
    killed = start(tmp_path)
    assert gate.wait(), f"{operation} never came: {server.calls}"
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    gate.release()

    again = start(tmp_path)
    out, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    for host, texts in LINES.items():
        shown = [line.partition(f"{host} ")[2] for line in out.splitlines() if f"{host} line" in line]
        assert shown == texts
    assert "StopTrainingJob" not in server.calls
