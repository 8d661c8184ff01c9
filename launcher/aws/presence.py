"""Whether what a cluster's manifest names is there, where no other question tells it."""

from __future__ import annotations

from typing import Any

from launcher.aws.errors import aws_errors


def fetch_key_state(kms: Any, key: str) -> str | None:
    """The state of a KMS key, by id or ARN, such as Enabled or PendingDeletion; None if there is no such key.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the key {key} (kms:DescribeKey)"):
        try:
            state: str = kms.describe_key(KeyId=key)["KeyMetadata"]["KeyState"]
        except kms.exceptions.NotFoundException:
            return None
    return state


def fetch_queue_state(batch: Any, queue_arn: str) -> str | None:
    """Whether a queue of AWS Batch is ENABLED or DISABLED; None if there is no such queue.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the queue {queue_arn} (batch:DescribeJobQueues)"):
        queues = batch.describe_job_queues(jobQueues=[queue_arn])["jobQueues"]
    return str(queues[0]["state"]) if queues else None


def fetch_subscribers(sns: Any, topic_arn: str) -> int | None:
    """How many have confirmed their subscription of a topic; None if there is no such topic.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors(f"look at the topic {topic_arn} (sns:GetTopicAttributes)"):
        try:
            attributes = sns.get_topic_attributes(TopicArn=topic_arn)["Attributes"]
        except sns.exceptions.NotFoundException:
            return None
    return int(attributes.get("SubscriptionsConfirmed", 0))
