"""A run that is handed over: deployed, failed by hardware, resumed, failed by code; and the cluster's end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.planning.next_attempt import name_attempt
from launcher.session.managed.records import Records
from stacks.controller_package import controller_package
from tests.emulator.account import use_test_keys
from tests.emulator.buckets import emulated_buckets
from tests.emulator.event_topics import emulated_event_topics
from tests.emulator.packed_function import packed_function, take_message
from tests.emulator.running_jobs import emulated_search
from tests.emulator.sagemaker import Ending, TrainingScript, emulated_training
from tests.stacks.command_line import Account
from tests.stacks.second_day.test_story import said

pytestmark = [pytest.mark.second_day, pytest.mark.timeout(1200)]

FILE = """\
name: story
region: us-west-2
availability_zones: [us-west-2a]
vpc: {cidr: 10.64.0.0/20, nat: true}
hosts: [{instance_type: ml.g5.8xlarge, count: 2}]
lustre: null
managed: true
observability: {}
removal_policy: retain
"""
HARDWARE = Ending("AlgorithmError: HW002 rank 3 on algo-1: Xid 79, exit code: 1")
CODE = Ending("AlgorithmError: CODE001 rank 0 on algo-1: KeyError: 'labels' (train.py:5), exit code: 1")
NO_CAPACITY = Ending("CapacityError: Unable to provision requested ML compute capacity.", billable_seconds=0)


@pytest.fixture
def account(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Account:
    use_test_keys(monkeypatch)
    file = tmp_path / "story.yaml"
    file.write_text(FILE)
    return Account(endpoint, file, tmp_path)


@contextmanager
def controller(account: Account, folder: Path) -> Iterator[Callable[[str], list[int]]]:
    """The deployed function; what is given it is the name of a job whose end it is told of."""
    manifest = account.manifest()
    sqs = account.client("sqs")
    queues = sqs.list_queues()["QueueUrls"]
    (queue,) = [each for each in queues if "Events" in each]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    groups = account.client("scheduler").list_schedule_groups()["ScheduleGroups"]
    (group,) = [each["Name"] for each in groups if each["Name"] != "default"]
    assert manifest.controller_arn is not None and manifest.topic_arn is not None
    environment = {
        "SLIPWAY_CLUSTER": "story",
        "SLIPWAY_CODE_BUCKET": manifest.buckets.code,
        "SLIPWAY_QUEUE_ARN": arn,
        "SLIPWAY_SCHEDULE_GROUP": group,
        "SLIPWAY_SCHEDULE_ROLE": "arn:aws:iam::123456789012:role/schedules",
        "SLIPWAY_TOPIC_ARN": manifest.topic_arn,
        "SLIPWAY_DIGEST": controller_package().digest,
    }
    with packed_function(account.endpoint, queue, manifest.controller_arn, environment, folder) as function:

        def tell(name: str, state: str = "Failed") -> list[int]:
            detail = {"TrainingJobName": name, "TrainingJobStatus": state, "RoleArn": manifest.role_arn}
            event = {
                "Source": "aws.sagemaker",
                "DetailType": "SageMaker Training Job State Change",
                "Detail": json.dumps(detail),
            }
            account.client("events").put_events(Entries=[event])
            return take_message(function)

        yield tell


def job_of(folder: Path) -> Path:
    (folder / "src").mkdir()
    (folder / "src" / "train.py").write_text("print('training')\n")
    file = folder / "job.yaml"
    file.write_text(
        "name: digits\ncode: {source_dir: src, entry_point: train.py}\n"
        'framework: {name: pytorch, version: "2.8.0", python: py312}\n'
        "resources: {instance_type: ml.g5.8xlarge, instance_count: 2}\n"
        "distribution: {strategy: torchrun}\ncheckpoint: {}\ncluster: story\n"
        "limits: {max_retries: 3, max_usd: 100}\n"
    )
    return file


def ended(account: Account, script: TrainingScript, name: str) -> None:
    sagemaker = account.client("sagemaker")
    while sagemaker.describe_training_job(TrainingJobName=name)["TrainingJobStatus"] == "InProgress":
        pass


def test_a_run_outlives_its_launcher_an_update_and_ends_before_its_cluster(
    account: Account, tmp_path: Path
) -> None:
    said(account.deploy())
    manifest, job = account.manifest(), job_of(tmp_path)
    script = TrainingScript(endings=[HARDWARE, CODE, NO_CAPACITY])
    running: list[dict[str, Any]] = []
    with (
        emulated_buckets(),
        emulated_event_topics(),
        emulated_search(running),
        emulated_training(script),
    ):
        # The emulated registry has none of AWS's images.
        launched = account.launch(str(job), "--managed", "--yes", "--ignore", "IMG001", "--output", "json")
        said(launched)
        first = json.loads(launched.stdout)["name"]
        second = name_attempt(first, 2)
        with controller(account, tmp_path / "function") as tell:
            ended(account, script, first)
            assert tell(first) == [1, 0]
            assert [each["TrainingJobName"] for each in script.requests] == [first, second]
            assert script.requests[1]["InfraCheckConfig"] == {"EnableInfraCheck": True}
            # An update while the second attempt runs: the run goes on.
            account.file.write_text(FILE.replace("count: 2", "count: 4"))
            said(account.deploy())
            running.append(script.requests[1])
            refused = account.launch("cluster", "destroy", "story", "--confirm", "story")
            assert second in said(refused, 1)
            running.clear()
            ended(account, script, second)
            assert tell(second) == [1, 0]
        records = Records(account.client("s3"), manifest.buckets.code, first)
        assert [each.cause for each in records.attempts()] == ["HW002", "CODE001"]
        status = json.loads(account.launch("status", first, "--output", "json").stdout)
        assert [each["cause"] for each in status["run"]["attempts"]] == ["HW002", "CODE001"]
        page = account.client("s3").get_object(
            Bucket=manifest.buckets.code, Key=f"runs/{first}/attempt-2.html"
        )
        assert second.encode() in page["Body"].read()
        said(account.launch("cluster", "destroy", "story", "--confirm", "story"))
    kept = account.client("s3").list_objects_v2(Bucket=manifest.buckets.code, Prefix=f"runs/{first}/")
    assert kept["KeyCount"] >= 6, "the records outlive the cluster, as its buckets do"
