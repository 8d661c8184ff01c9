"""What a cluster's stack makes around the controller, in an emulated account, with the running function."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.emulator.account import ACCOUNT, REGION, emulated_account, provision
from tests.emulator.faulty_server import faulty_server
from tests.emulator.managed_cluster import FUNCTION, ManagedCluster, WriteJob
from tests.emulator.packed_function import function_environment, packed_function, take_message
from tests.emulator.sagemaker import TrainingScript, emulated_training


@dataclass
class DeployedController:
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

    @property
    def schedules(self) -> list[dict[str, Any]]:
        """Those that wait to wake a run."""
        scheduler = self.cluster.account.client("scheduler")
        listed = scheduler.list_schedules(GroupName="runs")["Schedules"]
        return [scheduler.get_schedule(GroupName="runs", Name=each["Name"]) for each in listed]


@contextmanager
def deployed_controller(
    pattern: Mapping[str, Any], write_job: WriteJob, folder: Path
) -> Iterator[DeployedController]:
    """The controller with the rule of that event pattern, its package below the folder; needs test keys."""
    with (
        faulty_server() as server,
        emulated_account() as account,
        emulated_training(TrainingScript()) as script,
    ):
        provision(account, controller_arn=FUNCTION)
        sqs, sns, events = (account.client(service) for service in ("sqs", "sns", "events"))
        queue, mailbox = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("events", "mailbox"))
        topic = sns.create_topic(Name="ends")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn_in_account("sqs", "mailbox"))
        account.client("scheduler").create_schedule_group(Name="runs")
        detail = {**pattern["detail"], "RoleArn": [account.role_arn]}
        events.put_rule(Name="ended", EventPattern=json.dumps({**pattern, "detail": detail}))
        events.put_targets(Rule="ended", Targets=[{"Id": "queue", "Arn": arn_in_account("sqs", "events")}])
        environment = function_environment(topic)
        with packed_function(server.url, queue, FUNCTION, environment, folder) as function:
            yield DeployedController(ManagedCluster(account, script, write_job), queue, mailbox, function)


def arn_in_account(service: str, name: str) -> str:
    """The ARN of something of the emulated account."""
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{name}"
