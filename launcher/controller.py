"""The function that goes on with managed runs: what AWS Lambda calls with each message of the queue.

A message is an event of EventBridge, that a training job has ended, or one that a schedule of this function
sends, that a run is to be looked at again. All else is in `launcher.session.managed`. The environment is
what `constructs/managed_runs.py` gives.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from launcher.aws.clients import FOLLOWING, Clients
from launcher.aws.messages import hide_message, publish, schedule_message
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.names import digest_of
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.session.managed.advance_run import Controller
from launcher.session.managed.notices import RunNotice
from launcher.session.managed.records import Records

_TRIES_AGAIN_SECONDS = 120
"""After the first try of a message that failed; four times as much after each further one, at most as long as
the queue hides a message by itself."""

_LONGEST_HIDDEN_SECONDS = 5400


@frozen
class DeployedController:
    """What was deployed with the function, by its environment: `topic_arn` is empty where nobody is told."""

    region: str
    bucket: str
    queue_arn: str
    schedule_group: str
    schedule_role: str
    topic_arn: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> DeployedController:
        """Those of a deployed function. Raises KeyError for an environment that is not complete."""
        return cls(
            environment["AWS_REGION"],
            environment["SLIPWAY_CODE_BUCKET"],
            environment["SLIPWAY_QUEUE_ARN"],
            environment["SLIPWAY_SCHEDULE_GROUP"],
            environment["SLIPWAY_SCHEDULE_ROLE"],
            environment.get("SLIPWAY_TOPIC_ARN", ""),
        )


def handle(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Do what the messages ask for; those that could not be done are named, and come again.

    `event` and `context` are Lambda's (Lambda developer guide, with-sqs and python-context). Raises Refusal
    where the files of the function are not those that were deployed.
    """
    check_package(Path(__file__).parents[1], os.environ["SLIPWAY_DIGEST"])
    deployed, clients = DeployedController.of_environment(os.environ), _clients()
    failed = []
    for message in event["Records"]:
        try:
            _dispatch(message, _controller(deployed, clients, context))
        except Refusal as refusal:
            print(f"{message['messageId']}: {refusal.message} {refusal.remedy}", flush=True)
            _come_again_soon(message, deployed, clients)
            failed.append({"itemIdentifier": message["messageId"]})
    return {"batchItemFailures": failed}


@cache
def _clients() -> Clients:
    """The clients of all messages that this process handles: to make them takes longer than a step."""
    return Clients()


@cache
def check_package(folder: Path, digest: str) -> None:
    """Raise Refusal where the files below a folder are not those of that digest; looked at once."""
    found = digest_of(folder)
    if found != digest:
        raise Refusal(
            f"the controller's files have the digest {found}, and {digest} was deployed.",
            "Somebody has changed them: deploy the cluster again.",
        )


def _dispatch(message: Mapping[str, Any], controller: Controller) -> None:
    try:
        body = json.loads(message["body"])
        name = body.get("detail", {}).get("TrainingJobName")
        run = None if name else (str(body["run"]), int(body["attempt"]))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Refusal(
            f"the message {message['messageId']} is neither an event of SageMaker nor one of a schedule: "
            f"{type(error).__name__}.",
            "Look who else sends to the controller's queue.",
        ) from error
    if run is None:
        print(f"the training job {name} has ended", flush=True)
        controller.job_ended(str(name))
    else:
        print(f"the run {run[0]} is looked at again after attempt {run[1]}", flush=True)
        controller.advance(*run)


def _controller(deployed: DeployedController, clients: Clients, context: Any) -> Controller:
    region = deployed.region
    s3 = clients("s3", region)
    owner = str(context.invoked_function_arn).split(":")[4]

    def wake(first: str, number: int, at: float) -> None:
        schedule_message(
            clients("scheduler", region),
            group=deployed.schedule_group,
            role=deployed.schedule_role,
            queue=deployed.queue_arn,
            message={"run": first, "attempt": number},
            at=at,
        )

    def notify(notice: RunNotice) -> None:
        print(f"notice: {notice.subject}", flush=True)
        if deployed.topic_arn:
            publish(clients("sns", region), deployed.topic_arn, notice.subject, notice.text)

    return Controller(
        backend=SageMakerBackend(clients("sagemaker", region), clients("logs", region, FOLLOWING), s3),
        bucket=deployed.bucket,
        records=lambda first: Records(s3, deployed.bucket, first, owner),
        wake=wake,
        notify=notify,
        now=time.time,
        time_left=lambda: context.get_remaining_time_in_millis() / 1000,
        holder=str(context.aws_request_id),
    )


def seconds_until_next_try(tries: int) -> int:
    """For how many seconds a message is hidden that has failed so many times."""
    return min(_LONGEST_HIDDEN_SECONDS, _TRIES_AGAIN_SECONDS << 2 * (tries - 1))


def _come_again_soon(message: Mapping[str, Any], deployed: DeployedController, clients: Clients) -> None:
    """Let a message that failed come again sooner than the queue would give it back by itself."""
    seconds = seconds_until_next_try(int(message.get("attributes", {}).get("ApproximateReceiveCount", 1)))
    try:
        hide_message(clients("sqs", deployed.region), deployed.queue_arn, message["receiptHandle"], seconds)
    except Refusal as refusal:
        print(f"{message['messageId']} comes again later than it could: {refusal.message}", flush=True)
