"""`launch`, `check` and `plan` as their users call them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from launcher.session import launch_job
from tests.cli.conftest import RunLaunch, WriteJob
from tests.emulator.account import EmulatedAccount
from tests.emulator.sagemaker import TrainingScript, emulated_training


def test_a_dry_run_prints_job_request_and_findings(run_launch: RunLaunch, write_job: WriteJob) -> None:
    code, out, _ = run_launch(write_job(), "--dry-run", "--output", "json")
    printed = json.loads(out)
    assert code == 0
    assert list(printed) == ["job", "request", "version_choice", "findings", "source", "requirements"]
    assert printed["request"]["ResourceConfig"]["InstanceCount"] == 2


def test_the_dry_run_prints_what_a_submission_sends(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    file = write_job(cluster="dev")
    run_launch(file, "--yes")
    _, out, _ = run_launch(file, "--dry-run", "--output", "json")
    sent, shown = account.requests[0], json.loads(out)["request"]
    text = json.dumps(shown).replace(shown["TrainingJobName"], sent["TrainingJobName"])
    assert json.loads(text) == sent


def test_a_submitted_job_is_followed_to_its_end(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    account.logs = {"algo-1": ["epoch=1 loss=0.5"], "algo-2": ["ready"]}
    code, out, _ = run_launch(write_job(cluster="dev"), "--yes")
    assert code == 0
    assert "algo-1 epoch=1 loss=0.5" in out
    assert "Completed" in out


def test_a_failed_job_exits_with_1_and_says_which_rank_and_what_to_do(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    account.failure_reason = "AlgorithmError: CODE001 rank 3 on algo-2: ValueError: x, exit code: 1"
    code, out, _ = run_launch(write_job(cluster="dev"), "--yes", "--output", "json")
    ended = json.loads(out)
    assert code == 1
    assert ended["state"] == "Failed"
    assert (ended["failure"]["code"], ended["failure"]["subject"]) == ("CODE001", "rank 3")


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


def test_an_unknown_cluster_exits_with_2_and_names_the_parameter(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    code, _, err = run_launch(write_job(cluster="dve"), "--yes")
    assert code == 2
    assert "/slipway/clusters/dve" in err


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


def test_a_job_without_role_and_bucket_is_not_submitted(
    run_launch: RunLaunch, write_job: WriteJob, account: TrainingScript
) -> None:
    code, _, err = run_launch(write_job(), "--yes")
    assert code == 2
    assert "role_arn, bucket" in err
    assert account.requests == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.yaml"], 2, "nowhere.yaml"),
        (["explain", "EFA02"], 2, "EFA002"),
        (["--nonsense"], 2, "nonsense"),
        (["check"], 2, "JOB_FILE"),
    ],
)
def test_a_mistake_on_the_command_line_is_one_clear_error(
    run_launch: RunLaunch, arguments: list[str], code: int, says: str
) -> None:
    ended, out, err = run_launch(*arguments)
    assert ended == code
    assert says.lower() in err.lower()
    assert "Traceback" not in out + err


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["-h"], 0)])
def test_the_help_is_shown_on_asking_and_where_nothing_was_asked(
    run_launch: RunLaunch, arguments: list[str], code: int
) -> None:
    ended, out, _ = run_launch(*arguments)
    assert ended == code
    assert "Usage: launch" in out
    assert "explain" in out


def test_debug_shows_the_traceback_of_a_refusal(write_job: WriteJob) -> None:
    from launcher.cli.app import main
    from launcher.failure_modes.model import Refusal

    with pytest.raises(Refusal):
        main(["nowhere.yaml", "--debug"])


def test_findings_refuse_a_launch_with_1(run_launch: RunLaunch, write_job: WriteJob) -> None:
    code, out, err = run_launch(write_job(code={"source_dir": "src", "entry_point": "no.py"}), "--local")
    assert code == 1
    assert "CODE002" in out
    assert "not launched: 1 error" in err


@pytest.mark.parametrize("command", ["check", "plan"])
def test_a_sound_job_exits_with_0(run_launch: RunLaunch, write_job: WriteJob, command: str) -> None:
    assert run_launch(command, write_job())[0] == 0


def test_check_prints_findings_as_json(run_launch: RunLaunch, write_job: WriteJob) -> None:
    code, out, _ = run_launch("check", write_job(name="a_b"), "--output", "json")
    finding = json.loads(out)["findings"][0]
    assert code == 1
    assert (finding["code"], finding["stage"], finding["severity"]) == ("SPEC003", "spec", "error")
    assert finding["location"]["line"] >= 1


def test_options_change_the_job_for_this_run(run_launch: RunLaunch, write_job: WriteJob) -> None:
    file = write_job(distribution={"strategy": "torchrun", "processes_per_host": 4})
    arguments = ["--set", "resources.instance_count=3", "--ignore", "DIST001", "--output", "json"]
    code, out, _ = run_launch("plan", file, *arguments)
    printed = json.loads(out)
    assert code == 0
    assert printed["job"]["resources"]["instance_count"] == 3
    assert [f["code"] for f in printed["findings"] if f.get("ignored")] == ["DIST001"]


def test_text_output_shows_what_will_run(run_launch: RunLaunch, write_job: WriteJob) -> None:
    _, out, _ = run_launch("plan", write_job())
    assert "2 × ml.p4d.24xlarge" in out
    assert "world size 16" in out


def test_what_is_wrong_with_the_file_is_said_before_aws_is_asked(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    code, out, _ = run_launch(write_job(cluster="dev", code={"entry_point": "no.py"}), "--yes")
    assert code == 1
    assert "CODE002" in out


def test_no_environment_value_of_the_job_is_printed_when_it_is_refused(
    run_launch: RunLaunch, write_job: WriteJob
) -> None:
    file = write_job(environment={"TOKEN": "planted-value"}, code={"entry_point": "no.py"})
    _, out, err = run_launch(file, "--local")
    assert "planted-value" not in out + err


def test_a_tuning_job_does_not_run_here(run_launch: RunLaunch, write_job: WriteJob) -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": [0.1, 0.01]},
        "max_jobs": 2,
    }
    resources = {"instance_type": "ml.m5.xlarge"}
    code, _, err = run_launch(write_job(tuning=tuning, resources=resources), "--local")
    assert code == 2
    assert "a tuning job is SageMaker's own" in err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["chek", "job.yaml"], "chek is neither a command nor a job file. Did you mean check?"),
        (["stats"], "stats is neither a command nor a job file. Did you mean status?"),
        (["stats", "--output", "json"], "Did you mean status?"),
        (["cluster", "shwo", "dev"], 'Did you mean "show"?'),
        (["chek.yaml"], "there is no job file chek.yaml"),
        (["./chek"], "there is no job file chek"),
        (["zzzzzz"], "there is no job file zzzzzz"),
        (["check", "job.yaml", "other.yaml"], "too many arguments: other.yaml."),
        (["job.yaml", "other.yaml"], "too many arguments: other.yaml."),
    ],
)
def test_words_that_nothing_takes_are_named(run_launch: RunLaunch, arguments: list[str], told: str) -> None:
    code, _, err = run_launch(*arguments)
    assert (code, told in err) == (2, True)


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
