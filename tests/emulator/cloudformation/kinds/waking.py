"""Queues of SQS, groups of schedules, and what calls a function."""

from __future__ import annotations

import json
from typing import Any

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import (
    Kind,
    Properties,
    Put,
    Refused,
    Resource,
    as_list,
    only,
    tags_gone,
    tags_of,
)


class Queue(Kind):
    type, deletion = "AWS::SQS::Queue", ("sqs", "delete_queue", "QueueUrl")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties.get("QueueName", name)
        made = account.client("sqs").create_queue(
            QueueName=name, Attributes=_attributes(properties), tags=tags_of(properties)
        )
        return Resource(made["QueueUrl"], properties, {"Arn": account.arn("sqs", name), "QueueName": name})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        sqs, url = account.client("sqs"), old.physical_id
        sqs.set_queue_attributes(QueueUrl=url, Attributes=_attributes(properties))
        if gone := tags_gone(old, properties):
            sqs.untag_queue(QueueUrl=url, TagKeys=gone)
        sqs.tag_queue(QueueUrl=url, Tags=tags_of(properties))


class QueuePolicy(Put):
    type = "AWS::SQS::QueuePolicy"

    def put(self, account: Account, name: str, properties: Properties) -> None:
        policy = json.dumps(properties["PolicyDocument"])
        for url in properties["Queues"]:
            account.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})

    def delete(self, account: Account, old: Resource) -> None:
        for url in old.properties["Queues"]:
            account.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})


class EventSourceMapping(Kind):
    """What Lambda takes events by. It has them only where the queue hides them for as long as it works."""

    type = "AWS::Lambda::EventSourceMapping"

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        self.update(account, Resource(name, properties), properties)
        return Resource(name, properties)

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        sqs, queue = account.client("sqs"), properties["EventSourceArn"].rpartition(":")[2]
        url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
        hidden = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
        if int(hidden["VisibilityTimeout"]) < _LONGEST_SECONDS:
            raise Refused("InvalidParameterValueException: Queue visibility timeout is less than Function's.")

    def delete(self, account: Account, old: Resource) -> None:
        """There is nothing but what the stack holds."""


class ScheduleGroup(Kind):
    """A group of schedules, with which they go."""

    type, deletion = "AWS::Scheduler::ScheduleGroup", ("scheduler", "delete_schedule_group", "Name")

    def create(self, account: Account, name: str, properties: Properties) -> Resource:
        name = properties.get("Name", name)
        made = account.client("scheduler").create_schedule_group(Name=name, Tags=as_list(tags_of(properties)))
        return Resource(name, properties, {"Arn": made["ScheduleGroupArn"]})

    def update(self, account: Account, old: Resource, properties: Properties) -> None:
        scheduler, arn = account.client("scheduler"), old.attributes["Arn"]
        if gone := tags_gone(old, properties):
            scheduler.untag_resource(ResourceArn=arn, TagKeys=gone)
        scheduler.tag_resource(ResourceArn=arn, Tags=as_list(tags_of(properties)))


_LONGEST_SECONDS = 900
"""The longest that a function runs (Lambda developer guide, gettingstarted-limits)."""


def _attributes(properties: Properties) -> dict[str, str]:
    """The attributes of a queue, which the API takes as texts."""
    given = only(
        properties, "VisibilityTimeout", "MessageRetentionPeriod", "SqsManagedSseEnabled", "RedrivePolicy"
    )
    return {name: _text(value) for name, value in given.items()}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
