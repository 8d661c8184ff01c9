"""The controller's function as it is packed, in a process of its own, against emulated AWS on loopback."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launcher.planning.next_attempt import name_attempt
from stacks.controller_package import controller_package
from tests.emulator.account import ACCOUNT, REGION, emulated_account, provision, use_test_keys
from tests.emulator.faulty_server import faulty_server
from tests.emulator.managed_cluster import BUCKET, FUNCTION, ManagedCluster
from tests.emulator.packed_function import packed_function, take_message
from tests.emulator.sagemaker import Ending, TrainingScript, emulated_training
from tests.stacks import synthesis
from tools.attack.managed.simulation import FUNCTION_SECONDS, HIDDEN_SECONDS, RECEIVED_AT_MOST

HARDWARE = Ending(
    "AlgorithmError: HW002 rank 3 on algo-1: Xid 79, exit code: 1", {"algo-1": ["[rank0]: step=100 loss=1"]}
)
CODE = Ending("AlgorithmError: CODE001 rank 0 on algo-1: KeyError: 'labels' (train.py:5), exit code: 1")
NO_CAPACITY = Ending("CapacityError: Unable to provision requested ML compute capacity.", billable_seconds=0)
SAVED = ("step-100/.metadata", "step-100/__0_0.distcp")


@dataclass
class Deployed:
    """What the stack makes around the function, in an emulated account, and the running function."""

    cluster: ManagedCluster
    queue: str
    mailbox: str
    function: subprocess.Popen[str]

    def end(self, name: str, role: str | None = None) -> None:
        """Let a job end, and the service send its event."""
        self.cluster.script.finish(name)
        detail = {
            "TrainingJobName": name,
            "TrainingJobStatus": self.cluster.script.state_of(name),
            "RoleArn": role or self.cluster.account.role_arn,
        }
        event = {
            "Source": "aws.sagemaker",
            "DetailType": "SageMaker Training Job State Change",
            "Detail": json.dumps(detail),
        }
        sent = self.cluster.account.client("events").put_events(Entries=[event])
        assert sent["FailedEntryCount"] == 0

    def take_one(self) -> list[int]:
        """Let the function have the next message: how many there were, and how many failed."""
        return take_message(self.function)

    @property
    def mails(self) -> list[str]:
        """The subjects of what people were told, taken out of their mailbox."""
        sqs = self.cluster.account.client("sqs")
        found = sqs.receive_message(QueueUrl=self.mailbox, MaxNumberOfMessages=10).get("Messages", [])
        return [json.loads(each["Body"])["Subject"] for each in found]


@pytest.fixture(scope="module")
def managed() -> dict[str, Any]:
    """The resources of the managed stack, by their types."""
    found: dict[str, Any] = {}
    template = synthesis.synthesize(synthesis.OTHERS["everything"]).template("managed")
    for each in template["Resources"].values():
        found.setdefault(each["Type"], []).append(each["Properties"])
    return found


@pytest.fixture
def deployed(
    managed: dict[str, Any],
    write_job: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Deployed]:
    use_test_keys(monkeypatch)
    with (
        faulty_server() as server,
        emulated_account() as account,
        emulated_training(TrainingScript()) as script,
    ):
        provision(account, controller_arn=FUNCTION)
        sqs, sns, events = (account.client(service) for service in ("sqs", "sns", "events"))
        queue, mailbox = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("events", "mailbox"))
        topic = sns.create_topic(Name="ends")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=_arn("sqs", "mailbox"))
        account.client("scheduler").create_schedule_group(Name="runs")
        (rule,) = managed["AWS::Events::Rule"]
        pattern = {**rule["EventPattern"]}
        pattern["detail"] = {**pattern["detail"], "RoleArn": [account.role_arn]}
        events.put_rule(Name="ended", EventPattern=json.dumps(pattern))
        events.put_targets(Rule="ended", Targets=[{"Id": "queue", "Arn": _arn("sqs", "events")}])
        environment = {
            "SLIPWAY_CLUSTER": "dev",
            "SLIPWAY_CODE_BUCKET": BUCKET,
            "SLIPWAY_QUEUE_ARN": _arn("sqs", "events"),
            "SLIPWAY_SCHEDULE_GROUP": "runs",
            "SLIPWAY_SCHEDULE_ROLE": f"arn:aws:iam::{ACCOUNT}:role/schedules",
            "SLIPWAY_TOPIC_ARN": topic,
            "SLIPWAY_DIGEST": controller_package().digest,
        }
        with packed_function(server.url, queue, FUNCTION, environment, tmp_path) as function:
            yield Deployed(ManagedCluster(account, script, write_job), queue, mailbox, function)


def _arn(service: str, name: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"


def test_a_run_goes_on_after_broken_hardware_and_ends_with_a_fault_of_its_script(deployed: Deployed) -> None:
    cluster = deployed.cluster
    cluster.script.endings = [HARDWARE, CODE]
    first = cluster.hand_over()
    second = name_attempt(first, 2)
    cluster.store(first, *SAVED)
    deployed.end(first, role=f"arn:aws:iam::{ACCOUNT}:role/of-another-cluster")
    assert deployed.take_one() == [0, 0], "the rule lets only the cluster's own jobs through"

    deployed.end(first)
    assert deployed.take_one() == [1, 0]
    assert cluster.names == [first, second]
    assert cluster.stored(second) == {name: name.encode() for name in SAVED}
    assert deployed.mails == ["slipway: digits attempt 1 Failed (HW002)"]

    deployed.end(second)
    deployed.end(second)
    assert [deployed.take_one() for _ in range(3)] == [[1, 0], [1, 0], [0, 0]]
    assert cluster.names == [first, second]
    assert [each.cause for each in cluster.records(first).attempts()] == ["HW002", "CODE001"]
    assert deployed.mails == ["slipway: digits attempt 2 Failed (CODE001)"]
    page = cluster.s3.get_object(Bucket=BUCKET, Key=f"runs/{first}/attempt-2.html")["Body"].read()
    assert second.encode() in page


def test_a_run_that_waits_for_capacity_has_a_schedule_that_wakes_it(deployed: Deployed) -> None:
    cluster = deployed.cluster
    cluster.script.endings = [NO_CAPACITY]
    first = cluster.hand_over()
    asked = time.time()
    deployed.end(first)
    assert deployed.take_one() == [1, 0]

    scheduler = cluster.account.client("scheduler")
    (listed,) = scheduler.list_schedules(GroupName="runs")["Schedules"]
    schedule = scheduler.get_schedule(GroupName="runs", Name=listed["Name"])
    assert json.loads(schedule["Target"]["Input"]) == {"run": first, "attempt": 1}
    assert schedule["Target"]["Arn"] == _arn("sqs", "events")
    at = time.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)")
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert time.gmtime(asked + 299) < at < time.gmtime(asked + 900)


def test_a_message_that_cannot_be_done_stays_in_the_queue(deployed: Deployed) -> None:
    deployed.cluster.account.client("sqs").send_message(QueueUrl=deployed.queue, MessageBody='{"odd": 1}')
    assert deployed.take_one() == [1, 1]
    assert deployed.take_one() == [0, 0], "it is hidden for a while"


def test_the_function_gets_from_its_stack_what_it_reads(managed: dict[str, Any]) -> None:
    (function,) = managed["AWS::Lambda::Function"]
    (mapping,) = managed["AWS::Lambda::EventSourceMapping"]
    queues = [queue for queue in managed["AWS::SQS::Queue"] if "RedrivePolicy" in queue]
    assert {*function["Environment"]["Variables"]} == {
        *("SLIPWAY_CLUSTER", "SLIPWAY_CODE_BUCKET", "SLIPWAY_QUEUE_ARN", "SLIPWAY_SCHEDULE_GROUP"),
        *("SLIPWAY_SCHEDULE_ROLE", "SLIPWAY_TOPIC_ARN", "SLIPWAY_DIGEST"),
    }
    assert (function["Timeout"], mapping["BatchSize"]) == (FUNCTION_SECONDS, 1)
    assert [queue["VisibilityTimeout"] for queue in queues] == [HIDDEN_SECONDS]
    assert [queue["RedrivePolicy"]["maxReceiveCount"] for queue in queues] == [RECEIVED_AT_MOST]
