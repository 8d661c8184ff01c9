"""What the people who launch jobs may do with jobs: create, follow and stop those of their cluster."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from constructs.permissions import Permission, training_log_group

from launcher.cluster.manifest import CLUSTER_TAG
from launcher.cluster.names import SAGEMAKER_PRINCIPAL

_REQUEST_TAG, _RESOURCE_TAG = f"aws:RequestTag/{CLUSTER_TAG}", f"aws:ResourceTag/{CLUSTER_TAG}"

_OF_BATCH = "AWSBatch"
"""What the names of the training jobs begin with that AWS Batch creates, before the name that was submitted
(AWS Batch user guide, service-jobs)."""

_CREATE = ["sagemaker:CreateHyperParameterTuningJob", "sagemaker:CreateTrainingJob"]


def job_permissions(
    stack: cdk.Stack,
    *,
    cluster_name: str,
    role_arn: str,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
    team: str | None,
    queue: bool,
) -> list[Permission]:
    """The part of the launcher's policy that is about jobs of SageMaker.

    A job is the cluster's by its tag, which it gets when it is created and which nobody who launches can give
    to another one. It is created in the cluster's network only: without a VpcConfig it would have
    SageMaker's own way to the internet. A team's jobs are told by their names, which begin with the team's.
    Source: service authorization reference, Amazon SageMaker.
    """

    def arn(resource: str, name: str = "*") -> str:
        return stack.format_arn(service="sagemaker", resource=resource, resource_name=name)

    names = "*" if team is None else f"{team}-*"
    jobs = [arn("training-job", names), arn("hyper-parameter-tuning-job", names)]
    looked_at, streams = jobs, ["*"]
    if team is not None:
        streams = [f"log-stream:{names}"]
        if queue:
            looked_at = [*jobs, arn("training-job", f"{_OF_BATCH}{names}")]
            streams.append(f"log-stream:{_OF_BATCH}{names}")
    return [
        Permission(
            "CreateJobs",
            _CREATE,
            [*jobs, arn("training-plan"), arn("reserved-capacity")],
            "People name their jobs; a job in a training plan needs the plan and its capacity, whose names "
            "AWS chooses.",
            {
                "StringEquals": {_REQUEST_TAG: cluster_name},
                "ForAllValues:StringEquals": {
                    "sagemaker:VpcSubnets": list(subnet_ids),
                    "sagemaker:VpcSecurityGroupIds": list(security_group_ids),
                },
                # "For all values" holds of none, too.
                "Null": {"sagemaker:VpcSubnets": "false", "sagemaker:VpcSecurityGroupIds": "false"},
            },
        ),
        Permission(
            "TagNewJobs",
            ["sagemaker:AddTags"],
            jobs,
            "A job gets its tags while it is created; later nobody who launches changes them.",
            {
                "StringEquals": {
                    _REQUEST_TAG: cluster_name,
                    "sagemaker:TaggingAction": [each.partition(":")[2] for each in _CREATE],
                }
            },
        ),
        Permission(
            "LookAtJobs",
            [
                "sagemaker:DescribeHyperParameterTuningJob",
                "sagemaker:DescribeTrainingJob",
                "sagemaker:ListTags",
            ],
            looked_at,
            "All but those of other clusters: that there is no job of a name is only told to who may look at "
            "one without tags.",
            {"StringEqualsIfExists": {_RESOURCE_TAG: cluster_name}},
        ),
        Permission(
            "StopJobs",
            [
                "sagemaker:StopHyperParameterTuningJob",
                "sagemaker:StopTrainingJob",
                "sagemaker:UpdateTrainingJob",
            ],
            jobs,
            "People name their jobs; the tag tells the cluster's from others.",
            {"StringEquals": {_RESOURCE_TAG: cluster_name}},
        ),
        Permission(
            "ListJobs",
            ["sagemaker:ListTrainingJobs", "sagemaker:Search"],
            ["*"],
            "Listing knows no resources, and which jobs run is not known before it is searched.",
        ),
        Permission(
            "PassExecutionRole",
            ["iam:PassRole"],
            [role_arn],
            "The cluster's execution role, to SageMaker only.",
            {"StringEquals": {"iam:PassedToService": SAGEMAKER_PRINCIPAL}},
        ),
        *_logs(stack, streams),
    ]


def queue_permissions(stack: cdk.Stack, queue_arn: str, *, cluster_name: str) -> list[Permission]:
    """The part of the launcher's policy that is about the cluster's queue of AWS Batch.

    Batch creates the training jobs itself, and knows no condition on what a submitted request says of the
    network. Source: service authorization reference, AWS Batch.
    """
    jobs = stack.format_arn(service="batch", resource="service-job", resource_name="*")
    return [
        Permission(
            "QueueJobs",
            ["batch:SubmitServiceJob"],
            [queue_arn, jobs],
            "The cluster's queue; Batch chooses the ids of the jobs in it.",
            {"StringEquals": {_REQUEST_TAG: cluster_name}},
        ),
        Permission(
            "TagQueuedJobs",
            ["batch:TagResource"],
            [jobs],
            "A job gets its tags while it is submitted; one that another cluster's tag is on keeps it.",
            {
                "StringEquals": {_REQUEST_TAG: cluster_name},
                "StringEqualsIfExists": {_RESOURCE_TAG: cluster_name},
            },
        ),
        Permission(
            "FindQueuedJobs",
            ["batch:DescribeServiceJob", "batch:ListServiceJobs"],
            ["*"],
            "Batch's List and Describe actions for service jobs know no resources.",
        ),
        Permission(
            "StopQueuedJobs",
            ["batch:TerminateServiceJob"],
            [jobs],
            "Batch chooses the ids of queued jobs; the tag tells the cluster's from others.",
            {"StringEquals": {_RESOURCE_TAG: cluster_name}},
        ),
    ]


def _logs(stack: cdk.Stack, streams: Sequence[str]) -> list[Permission]:
    group = training_log_group(stack)
    return [
        Permission(
            "ReadLogs",
            ["logs:DescribeLogStreams", "logs:GetLogEvents"],
            [group, *(f"{group}:{each}" for each in streams)],
            "One log group for all training jobs, one stream per host, named after the job.",
        )
    ]
