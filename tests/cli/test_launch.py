"""`launch`, `check` and `plan` as their users call them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from launcher.session import launch_job
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training


def test_the_dry_run_prints_what_a_submission_sends(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    file = write_job(cluster="dev")
    run_launch(file, "--yes")
    _, out, _ = run_launch(file, "--dry-run", "--output", "json")
    sent, shown = account.requests[0], json.loads(out)["request"]
    text = json.dumps(shown).replace(shown["TrainingJobName"], sent["TrainingJobName"])
    # All but what only the job's hosts may know, and every job has its own.
    assert re.fullmatch("[0-9a-f]{32}", sent["Environment"].pop("SLIPWAY_HOST_TOKEN"))
    assert json.loads(text) == sent


def test_a_detached_job_is_submitted_and_left(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    code, out, _ = run_launch(write_job(cluster="dev"), "--yes", "--detach", "--output", "json")
    assert code == 0
    assert json.loads(out)["name"] == account.requests[0]["TrainingJobName"]


def test_with_standard_input_closed_nobody_is_asked(
    account: TrainingScript, run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    code, _, err = run_launch(write_job(cluster="dev"), "--detach")
    assert (code, "submitted digits-" in err) == (0, True)


def test_missing_credentials_exit_with_3_and_show_the_ways_without(
    run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    with mock_aws(config={"core": {"mock_credentials": False}}):
        code, out, err = run_launch(write_job(), "--yes")
    assert code == 3
    assert "credentials" in err
    assert "--local" in err
    assert "Traceback" not in out + err


def test_debug_shows_the_traceback_of_a_refusal(write_job: WriteJob) -> None:
    from launcher.cli.app import main
    from launcher.failure_modes.model import Refusal

    with pytest.raises(Refusal):
        main(["nowhere.yaml", "--debug"])


def test_a_job_file_may_be_called_almost_as_a_command(
    run_launch: RunLaunch, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_job()
    monkeypatch.chdir(file.parent)
    file.rename(file.with_name("chek"))
    assert run_launch("chek", "--dry-run")[0] == 0


class Checkpointing(TrainingScript):
    """Every job saves a checkpoint, one step further than what it started from."""

    def __init__(self, account: EmulatedAccount) -> None:
        super().__init__()
        self._s3 = account.client("s3")

    def create(self, request: dict[str, Any]) -> None:
        super().create(request)
        step = 100 * len(self.requests)
        self._s3.put_object(Bucket="team-checkpoints", Key=f"{self.prefix(-1)}step-{step}.pt", Body=b"x")

    def prefix(self, index: int) -> str:
        uri = self.requests[index]["CheckpointConfig"]["S3Uri"]
        return str(uri.removeprefix("s3://team-checkpoints/")) + "/"

    def checkpoints(self, index: int) -> list[str]:
        listed = self._s3.list_objects_v2(Bucket="team-checkpoints", Prefix=self.prefix(index))
        return [found["Key"].rpartition("/")[2] for found in listed["Contents"]]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between attempts, without waiting."""
    waited: list[float] = []
    monkeypatch.setattr(launch_job.time, "sleep", waited.append)
    return waited


@pytest.fixture
def script(cloud: EmulatedAccount, waits: list[float]) -> Iterator[Checkpointing]:
    cloud.quotas["ml.p4de.24xlarge for training job usage"] = 8.0
    with emulated_training(Checkpointing(cloud)) as script:
        yield script


def test_hosts_at_fault_are_left_and_the_checkpoint_goes_along(
    run_launch: RunLaunch, write_job: WriteJob, script: Checkpointing
) -> None:
    script.failure_reason = "AlgorithmError: HW001 rank 3 on algo-2: uncorrectable ECC error, exit code: 1"
    script.logs = {"algo-1": ["step=500 loss=0.5"]}
    job = write_job(cluster="dev", limits={"max_retries": 5})
    code, out, err = run_launch(job, "--yes", "--output", "json")
    ended = json.loads(out)
    assert code == 1
    # The first came further than nothing; the two after it did not.
    assert len(script.requests) == 3
    assert ended["attempts"] == [request["TrainingJobName"] for request in script.requests]
    assert script.checkpoints(1) == ["step-100.pt", "step-200.pt"]
    assert "2 attempts in a row got no further" in err


def test_without_capacity_the_next_type_is_tried_then_waited_for(
    run_launch: RunLaunch,
    write_job: WriteJob,
    script: Checkpointing,
    waits: list[float],
) -> None:
    script.failure_reason = "CapacityError: Unable to provision requested ML compute capacity."
    resources = {
        "instance_type": "ml.p4d.24xlarge",
        "instance_types": ["ml.p4de.24xlarge"],
        "instance_count": 2,
    }
    job = write_job(cluster="dev", limits={"max_retries": 2}, resources=resources)
    code, _, err = run_launch(job, "--yes")
    types = [request["ResourceConfig"]["InstanceType"] for request in script.requests]
    assert code == 1
    assert types == ["ml.p4d.24xlarge", "ml.p4de.24xlarge", "ml.p4d.24xlarge"]
    assert 300.0 in waits
    assert "there is no capacity for ml.p4d.24xlarge" in err
    assert "limits.max_retries (2) is used up" in err


def test_a_script_that_raised_is_not_tried_again(
    run_launch: RunLaunch, write_job: WriteJob, script: Checkpointing
) -> None:
    script.failure_reason = "AlgorithmError: CODE001 rank 0 on algo-1: ValueError: x, exit code: 1"
    run_launch(write_job(cluster="dev", limits={"max_retries": 5}), "--yes")
    assert len(script.requests) == 1


def test_code_that_is_edited_meanwhile_does_not_change_the_next_attempt(
    run_launch: RunLaunch,
    write_job: WriteJob,
    script: Checkpointing,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script.failure_reason = "CapacityError: Unable to provision requested ML compute capacity."
    job = write_job(cluster="dev", limits={"max_retries": 1})

    def edit(seconds: float) -> None:
        (job.parent / "src" / "train.py").write_text("print('another')\n")

    monkeypatch.setattr(launch_job.time, "sleep", edit)
    run_launch(job, "--yes")
    first, second = script.requests
    assert _code(first) == _code(second)


def _code(request: dict[str, Any]) -> str:
    [code] = [channel for channel in request["InputDataConfig"] if channel["ChannelName"] == "code"]
    return str(code["DataSource"]["S3DataSource"]["S3Uri"])


def test_a_warm_pool_with_a_broken_host_is_ended(
    run_launch: RunLaunch, write_job: WriteJob, script: Checkpointing
) -> None:
    script.failure_reason = "AlgorithmError: HW001 rank 3 on algo-2: uncorrectable ECC error, exit code: 1"
    resources = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2, "keep_alive": "30m"}
    job = write_job(cluster="dev", limits={"max_retries": 1}, resources=resources)
    run_launch(job, "--yes", "--ignore", "CAP002")
    first = script.requests[0]["TrainingJobName"]
    assert script.updates[0] == {
        "TrainingJobName": first,
        "ResourceConfig": {"KeepAlivePeriodInSeconds": 0},
    }
