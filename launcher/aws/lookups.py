"""Single things that are looked up by name: the manifest of a cluster, the request of a training job, what a
manifest names."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from launcher.aws.errors import aws_errors
from launcher.cluster.manifest import Cluster, manifest_parameter_name
from launcher.failure_modes.refusal import Refusal


def fetch_manifest(ssm: Any, name: str) -> Cluster:
    """Read the manifest of a cluster with an SSM client.

    Raises Refusal where there is no such cluster or its manifest is broken, AwsRefusal where AWS
    refuses.
    """
    parameter = manifest_parameter_name(name)
    with aws_errors(f"read the cluster manifest {parameter}"):
        try:
            text = ssm.get_parameter(Name=parameter)["Parameter"]["Value"]
        except ssm.exceptions.ParameterNotFound:
            region = ssm.meta.region_name
            raise Refusal(
                f"no cluster named {name} is provisioned in {region}: there is no SSM parameter {parameter}.",
                f"Provision it with `cdk deploy --all -c cluster={name}`, or correct `cluster` or `region`.",
            ) from None
    try:
        return Cluster.model_validate_json(text)
    except ValidationError as error:
        raise Refusal(
            f"the SSM parameter {parameter} holds no cluster manifest: {error.errors()[0]['msg']}.",
            f"Deploy the cluster again with `cdk deploy --all -c cluster={name}`.",
        ) from error


def fetch_request(sagemaker: Any, job_name: str) -> dict[str, Any]:
    """What CreateTrainingJob was called with, as far as DescribeTrainingJob shows it (it shows no tags).

    Raises AwsRefusal where there is no such job, or AWS refuses.
    """
    with aws_errors(f"describe the training job {job_name}"):
        described = sagemaker.describe_training_job(TrainingJobName=job_name)
    members = sagemaker.meta.service_model.operation_model("CreateTrainingJob").input_shape.members
    return {name: described[name] for name in members if name in described}


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
