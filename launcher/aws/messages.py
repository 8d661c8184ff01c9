"""Messages between a function and itself, later, and from it to people: schedules, a queue and a topic."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from launcher.aws.errors import aws_errors

_MINUTE = 60
"""Seconds; a schedule knows whole minutes (EventBridge Scheduler user guide, schedule-types)."""


def schedule_message(
    scheduler: Any, *, group: str, role: str, queue: str, message: Mapping[str, Any], at: float
) -> None:
    """Have a message sent to a queue at a time (seconds since the epoch), by a schedule that removes itself.

    Who asks for the same message at the same minute twice gets one schedule: its name follows from both.
    `group` is the schedule's, `role` and `queue` are ARNs. Raises AwsRefusal where AWS refuses.
    """
    text = json.dumps(message, sort_keys=True)
    minute = minute_of(at, time.time())
    moment = datetime.fromtimestamp(minute * _MINUTE, UTC)
    with (
        aws_errors(f"have {text} sent later (scheduler:CreateSchedule)"),
        suppress(scheduler.exceptions.ConflictException),  # It is there already.
    ):
        scheduler.create_schedule(
            Name=f"{hashlib.sha256(text.encode()).hexdigest()[:32]}-{minute}",
            GroupName=group,
            ScheduleExpression=f"at({moment:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={"Arn": queue, "RoleArn": role, "Input": text},
        )


def minute_of(at: float, now: float) -> int:
    """The minute since the epoch at whose begin something happens that is to happen at a time.

    At least a whole minute ahead: the schedule of a minute that has begun, or begins while it is being made,
    would be one that has fired already, by a clock that differs. Times are seconds since the epoch.
    """
    return max(math.ceil(at / _MINUTE), int(now // _MINUTE) + 2)


def hide_message(sqs: Any, queue: str, receipt: str, seconds: int) -> None:
    """Let a message that was received come again after so many seconds, sooner or later than the queue would
    give it back.

    `queue` is an ARN. Raises AwsRefusal where AWS refuses.
    """
    *_, account, name = queue.split(":")
    with aws_errors("let a message come again (sqs:GetQueueUrl, sqs:ChangeMessageVisibility)"):
        url = sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=seconds)


def publish(sns: Any, topic: str, subject: str, text: str) -> None:
    """Tell a topic's subscribers; `topic` is an ARN. Raises AwsRefusal where AWS refuses."""
    with aws_errors(f"tell {topic} (sns:Publish)"):
        sns.publish(TopicArn=topic, Subject=subject, Message=text)
