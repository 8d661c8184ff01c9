"""The controller's function as it is packed, in a process of its own, against emulated AWS on loopback."""

from __future__ import annotations

import json
import time
from typing import Any

from launcher.planning.next_attempt import name_attempt
from tests.emulator.account import ACCOUNT
from tests.emulator.deployed_controller import DeployedController, arn_in_account
from tests.emulator.managed_cluster import BUCKET
from tests.emulator.packed_function import FUNCTION_SECONDS
from tests.emulator.sagemaker import Ending
from tools.attack.managed.simulation import HIDDEN_SECONDS, RECEIVED_AT_MOST

HARDWARE = Ending(
    "AlgorithmError: HW002 rank 3 on algo-1: Xid 79, exit code: 1", {"algo-1": ["[rank0]: step=100 loss=1"]}
)
CODE = Ending("AlgorithmError: CODE001 rank 0 on algo-1: KeyError: 'labels' (train.py:5), exit code: 1")
NO_CAPACITY = Ending("CapacityError: Unable to provision requested ML compute capacity.", billable_seconds=0)
SAVED = ("step-100/.metadata", "step-100/__0_0.distcp")


def test_a_run_goes_on_after_broken_hardware_and_ends_with_a_fault_of_its_script(
    deployed: DeployedController,
) -> None:
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


def test_a_run_that_waits_for_capacity_has_a_schedule_that_wakes_it(deployed: DeployedController) -> None:
    cluster = deployed.cluster
    cluster.script.endings = [NO_CAPACITY]
    first = cluster.hand_over()
    asked = time.time()
    deployed.end(first)
    assert deployed.take_one() == [1, 0]

    (schedule,) = deployed.schedules
    assert json.loads(schedule["Target"]["Input"]) == {"run": first, "attempt": 1}
    assert schedule["Target"]["Arn"] == arn_in_account("sqs", "events")
    at = time.strptime(schedule["ScheduleExpression"], "at(%Y-%m-%dT%H:%M:%S)")
    assert schedule["ActionAfterCompletion"] == "DELETE"
    assert time.gmtime(asked + 299) < at < time.gmtime(asked + 900)


def test_a_message_that_cannot_be_done_stays_in_the_queue(deployed: DeployedController) -> None:
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
