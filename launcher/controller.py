"""The function that goes on with managed runs: what AWS Lambda calls with each message of the queue.

A message is an event of EventBridge, that a training job has ended, or one that a schedule of this function
sends, that a run is to be looked at again. All else is in `launcher.session.managed`. The environment is
what `constructs/managed_runs.py` gives.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from launcher.aws.clients import FOLLOWING, Clients
from launcher.aws.errors import aws_errors
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.package_digest import digest_of
from launcher.failure_modes.model import Refusal
from launcher.frozen import frozen
from launcher.session.managed.advance_run import Controller
from launcher.session.managed.notices import Notice
from launcher.session.managed.records import Records

_TRIES_AGAIN_SECONDS = 120
"""After the first try of a message that failed; four times as much after each further one, at most as long as
the queue hides a message by itself."""

_LONGEST_HIDDEN_SECONDS = 5400

_MINUTE = 60


@frozen
class Surroundings:
    """Where the function runs, by its environment: `topic_arn` is empty where nobody is told."""

    region: str
    bucket: str
    queue_arn: str
    schedule_group: str
    schedule_role: str
    topic_arn: str

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Surroundings:
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
    surroundings, clients = Surroundings.of_environment(os.environ), Clients()
    failed = []
    for message in event["Records"]:
        try:
            _dispatch(message, _controller(surroundings, clients, context))
        except Refusal as refusal:
            print(f"{message['messageId']}: {refusal.message} {refusal.remedy}", flush=True)
            _come_again_soon(message, surroundings, clients)
            failed.append({"itemIdentifier": message["messageId"]})
    return {"batchItemFailures": failed}


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


def _controller(surroundings: Surroundings, clients: Clients, context: Any) -> Controller:
    region = surroundings.region
    s3 = clients("s3", region)
    owner = str(context.invoked_function_arn).split(":")[4]

    def wake(first: str, number: int, at: float) -> None:
        _schedule(clients("scheduler", region), surroundings, first, number, at)

    def notify(notice: Notice) -> None:
        print(f"notice: {notice.subject}", flush=True)
        if surroundings.topic_arn:
            with aws_errors(f"tell {surroundings.topic_arn} (sns:Publish)"):
                clients("sns", region).publish(
                    TopicArn=surroundings.topic_arn, Subject=notice.subject, Message=notice.text
                )

    return Controller(
        backend=SageMakerBackend(clients("sagemaker", region), clients("logs", region, FOLLOWING), s3),
        bucket=surroundings.bucket,
        records=lambda first: Records(s3, surroundings.bucket, first, owner),
        wake=wake,
        notify=notify,
        now=time.time,
        time_left=lambda: context.get_remaining_time_in_millis() / 1000,
        holder=str(context.aws_request_id),
    )


def _schedule(scheduler: Any, surroundings: Surroundings, first: str, number: int, at: float) -> None:
    """Have a message sent to the queue at a time, once; a schedule knows whole minutes, and removes itself.

    Two that ask for the same minute get one: its name follows from the run, the attempt and the minute.
    """
    minute = minute_of(at, time.time())
    name = f"{hashlib.sha256(f'{first}/{number}'.encode()).hexdigest()[:32]}-{minute}"
    moment = datetime.fromtimestamp(minute * _MINUTE, UTC)
    with (
        aws_errors(f"have {first} looked at again (scheduler:CreateSchedule)"),
        suppress(scheduler.exceptions.ConflictException),  # It is there already.
    ):
        scheduler.create_schedule(
            Name=name,
            GroupName=surroundings.schedule_group,
            ScheduleExpression=f"at({moment:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": surroundings.queue_arn,
                "RoleArn": surroundings.schedule_role,
                "Input": json.dumps({"run": first, "attempt": number}),
            },
        )


def minute_of(at: float, now: float) -> int:
    """The minute since the epoch at whose begin something happens that is to happen at a time.

    At least a whole minute ahead: the schedule of a minute that has begun, or begins while it is being made,
    would be one that has fired already, by a clock that differs. Times are seconds since the epoch.
    """
    return max(math.ceil(at / _MINUTE), int(now // _MINUTE) + 2)


def seconds_until_next_try(tries: int) -> int:
    """For how many seconds a message is hidden that has failed so many times."""
    return min(_LONGEST_HIDDEN_SECONDS, _TRIES_AGAIN_SECONDS << 2 * (tries - 1))


def _come_again_soon(message: Mapping[str, Any], surroundings: Surroundings, clients: Clients) -> None:
    """Let a message that failed come again sooner than the queue would give it back by itself."""
    tries = int(message.get("attributes", {}).get("ApproximateReceiveCount", 1))
    seconds = seconds_until_next_try(tries)
    sqs = clients("sqs", surroundings.region)
    queue = surroundings.queue_arn.split(":")
    try:
        with aws_errors("let a message come again (sqs:ChangeMessageVisibility)"):
            url = sqs.get_queue_url(QueueName=queue[5], QueueOwnerAWSAccountId=queue[4])["QueueUrl"]
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=message["receiptHandle"], VisibilityTimeout=seconds
            )
    except Refusal as refusal:
        print(f"{message['messageId']} comes again later than it could: {refusal.message}", flush=True)
