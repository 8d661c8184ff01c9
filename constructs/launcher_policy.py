"""What the people who launch jobs may do: the calls that `launch` makes, and no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.permissions import (
    Permission,
    acknowledge_wildcards,
    add_further_policies,
    bucket_arn,
    in_chunks,
    key_arn,
    packed,
    policy_document,
    training_log_group,
    written_bucket_keys,
)

from launcher.cluster.manifest import CLUSTER_TAG, CODE_FOLDER, manifest_parameter_name
from launcher.cluster.names import SAGEMAKER_PRINCIPAL
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT,)

_NETWORK = (
    "InstanceTypeOfferings",
    "NetworkAcls",
    "NetworkInterfaces",
    "RouteTables",
    "SecurityGroups",
    "Subnets",
    "VpcEndpoints",
)


class LauncherPolicy(iam.ManagedPolicy):
    """A managed policy to attach to a team's role: submit, follow, stop and diagnose jobs.

    It passes the cluster's execution role to SageMaker and no other role to anyone, so whoever has
    it can do through a job what that role may do, and nothing beyond; jobs of other clusters are out of
    reach. Source: IAM user guide, id_roles_use_passrole; SageMaker API reference, permissions by action.

    What does not fit into one policy goes into further ones beside it, whose ids end in 2, 3 and so on.

    Attributes:
        arns: the ARNs of the policy and of the further ones; all of them are to be attached.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster_name: str,
        role: iam.IRole,
        code: s3.IBucket,
        checkpoints: s3.IBucket,
        output: s3.IBucket,
        subnet_ids: Sequence[str],
        security_group_ids: Sequence[str],
        data_buckets: Sequence[s3.IBucket] = (),
        encryption_key: kms.IKey | None = None,
        file_system: bool = False,
        queue_arn: str | None = None,
        launchers: Sequence[iam.IRole | str] = (),
        written_with: Sequence[str] = (),
        team: str | None = None,
    ) -> None:
        """Create the policy; attaching it is left to whoever keeps the team's roles.

        Args:
            scope: the parent construct.
            id: the construct's id.
            cluster_name: names the manifest that may be read.
            role: the execution role of the cluster's jobs, in the same stack.
            code: bucket that the launcher uploads to.
            checkpoints: bucket in which it looks for checkpoints, and copies one to resume from.
            output: bucket in which it looks for what jobs leave.
            subnet_ids: where jobs may run.
            security_group_ids: the groups that their hosts may be in.
            data_buckets: buckets that it looks into before it submits.
            encryption_key: the key of the buckets and volumes, if it is the account's own.
            file_system: whether there is a Lustre file system, which it looks at before it submits.
            queue_arn: the queue that it may submit to, if any.
            launchers: roles, or their ARNs, through which people launch: they may then ask IAM what they
                themselves may do, which users may anyway.
            written_with: ARNs of further keys, of buckets that it writes into.
            team: the team that the policy is for; it can do with its own jobs, whose names begin with the
                team's and a hyphen, what without a team can be done with all.
        """
        stack = cdk.Stack.of(scope)
        own = [bucket_arn(bucket, stack) for bucket in (code, checkpoints, output)]
        permissions = [
            *_cluster(stack, cluster_name),
            *object_permissions(*own, team=team),
            *job_permissions(
                stack,
                cluster_name=cluster_name,
                role_arn=role.role_arn,
                subnet_ids=subnet_ids,
                security_group_ids=security_group_ids,
                team=team,
                queue=queue_arn is not None,
            ),
        ]
        if encryption_key is not None:
            permissions += _key(key_arn(encryption_key, stack))
        if queue_arn is not None:
            permissions += queue_permissions(stack, queue_arn, cluster_name=cluster_name)
        permissions += [
            *written_bucket_keys(written_with),
            *_checks(stack, role.role_arn, file_system=file_system),
            *_oneself(stack, [each if isinstance(each, str) else each.role_arn for each in launchers]),
            *data_permissions([bucket_arn(bucket, stack) for bucket in data_buckets]),
        ]
        first, *others = packed(permissions, stack)
        who = "" if team is None else f" as {team}"
        description = f"Launch training jobs on Slipway cluster {cluster_name}{who}"
        super().__init__(scope, id, description=description, document=policy_document(first))
        acknowledge_wildcards(self, first)
        further = add_further_policies(scope, id, others, lambda number: f"{description} ({number})")
        self.arns = [self.managed_policy_arn, *further]


def _cluster(stack: cdk.Stack, cluster_name: str) -> list[Permission]:
    name = manifest_parameter_name(cluster_name).lstrip("/")
    return [
        Permission(
            "KnowWhoAsks",
            ["sts:GetCallerIdentity"],
            ["*"],
            "sts:GetCallerIdentity knows no resources.",
        ),
        Permission(
            "ReadManifest",
            ["ssm:GetParameter"],
            [stack.format_arn(service="ssm", resource="parameter", resource_name=name)],
            "The manifest of this cluster.",
        ),
    ]


def _checks(stack: cdk.Stack, role_arn: str, *, file_system: bool) -> list[Permission]:
    permissions = [
        Permission(
            "LookAtTheNetwork",
            [f"ec2:Describe{what}" for what in _NETWORK],
            ["*"],
            "EC2's Describe actions know no resources.",
        ),
        Permission(
            "LookAtTheRole",
            ["iam:GetRole", "iam:SimulatePrincipalPolicy"],
            [role_arn],
            "Whether the role lets a job do what it must.",
        ),
        Permission(
            "LookAtQuotas",
            [
                "servicequotas:GetAWSDefaultServiceQuota",
                "servicequotas:GetServiceQuota",
                "servicequotas:ListAWSDefaultServiceQuotas",
            ],
            ["*"],
            "Quotas of SageMaker are known by codes that differ by instance type.",
        ),
        Permission(
            "LookForImages",
            ["ecr:BatchGetImage", "ecr:DescribeImages"],
            [stack.format_arn(service="ecr", account="*", resource="repository", resource_name="*")],
            "AWS keeps its training images in accounts that differ by region and framework.",
        ),
    ]
    if file_system:
        permissions.append(
            Permission(
                "LookAtTheFileSystem",
                ["fsx:DescribeDataRepositoryAssociations", "fsx:DescribeFileSystems"],
                ["*"],
                "Whether the file system is available, and its links to S3; FSx's Describe actions know no "
                "resources.",
            )
        )
    return permissions


def _oneself(stack: cdk.Stack, role_arns: Sequence[str]) -> list[Permission]:
    """Policies can name the user who asks, `${aws:username}`, but not the role: roles are listed one by one.

    A role's session does not tell the role's path, without which IAM does not know it: iam:GetRole does.
    """
    permissions = [
        Permission(
            "LookAtOneself",
            ["iam:SimulatePrincipalPolicy"],
            [stack.format_arn(service="iam", region="", resource="user", resource_name="${aws:username}")],
            "Whether the user who launches may pass the role.",
        )
    ]
    if role_arns:
        permissions.append(
            Permission(
                "LookAtOnesRole",
                ["iam:GetRole", "iam:SimulatePrincipalPolicy"],
                list(role_arns),
                "Whether the role through which people launch may pass the execution role.",
            )
        )
    return permissions


def _key(arn: str) -> list[Permission]:
    """Source: SageMaker API reference, ResourceConfig (VolumeKmsKeyId: the caller makes the grant)."""
    return [
        Permission(
            "UseKey",
            ["kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            [arn],
            "Code is written, and results are read, with the cluster's key.",
        ),
        Permission(
            "LetVolumesUseKey",
            ["kms:CreateGrant"],
            [arn],
            "SageMaker encrypts the hosts' volumes with a grant of who creates the job.",
            {"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


# What the people who launch may do with jobs: create, follow and stop those of their cluster.


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
        *_creation(jobs, arn, cluster_name, subnet_ids, security_group_ids),
        *_control(jobs, looked_at, cluster_name),
        Permission(
            "PassExecutionRole",
            ["iam:PassRole"],
            [role_arn],
            "The cluster's execution role, to SageMaker only.",
            {"StringEquals": {"iam:PassedToService": SAGEMAKER_PRINCIPAL}},
        ),
        *_logs(stack, streams),
    ]


def _creation(
    jobs: list[str],
    arn: Callable[[str], str],
    cluster_name: str,
    subnet_ids: Sequence[str],
    security_group_ids: Sequence[str],
) -> list[Permission]:
    """Create the cluster's jobs in its network, and give them their tags meanwhile."""
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
    ]


def _control(jobs: list[str], looked_at: list[str], cluster_name: str) -> list[Permission]:
    """Describe, stop and list jobs."""
    return [
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


# What the people who launch jobs may do with objects on S3: look, write code once, copy checkpoints.


def object_permissions(code: str, checkpoints: str, output: str, *, team: str | None) -> list[Permission]:
    """The part of the launcher's policy that is about objects.

    `code`, `checkpoints` and `output` are the ARNs of the cluster's buckets. A team gets at what lies below
    the names of its own jobs. Nobody who launches may replace or delete code: others' jobs run it with the
    cluster's role. Source: Amazon S3 user guide, conditional-writes-enforce.
    """
    objects = "*" if team is None else f"{team}-*"
    objects_of_code = [f"{code}/{CODE_FOLDER}/*"]
    return [
        Permission(
            "LookIntoBuckets",
            ["s3:ListBucket", "s3:GetBucketLocation", "s3:GetEncryptionConfiguration"],
            [code, checkpoints, output],
            "Inputs and checkpoints are looked for before a job is submitted.",
        ),
        Permission(
            "CompareCode",
            ["s3:GetObject", "s3:AbortMultipartUpload"],
            objects_of_code,
            "Code goes under a key that its content decides; what lies there already is compared.",
        ),
        Permission(
            "UploadCode",
            ["s3:PutObject"],
            objects_of_code,
            "Code is created where none lies, and never replaced.",
            {"Null": {"s3:if-none-match": "false"}},
        ),
        Permission(
            "UploadPartsOfCode",
            ["s3:PutObject"],
            objects_of_code,
            "To start an upload in parts, and to send one, creates no object and takes no condition.",
            {"Bool": {"s3:ObjectCreationOperation": "false"}},
        ),
        Permission(
            "ReadResults",
            ["s3:GetObject"],
            [f"{checkpoints}/{objects}", f"{output}/{objects}"],
            "A job that resumes or is diagnosed is known by its name only.",
        ),
        Permission(
            "CopyCheckpoints",
            ["s3:PutObject", "s3:AbortMultipartUpload"],
            [f"{checkpoints}/{objects}"],
            "A job that resumes gets the newest checkpoint under its own key.",
        ),
    ]


def data_permissions(data: Sequence[str]) -> list[Permission]:
    """The part about further buckets that jobs read, by their ARNs: as many as fit into each statement."""
    return [
        Permission(
            f"LookIntoData{number}",
            ["s3:ListBucket", "s3:GetBucketLocation", "s3:GetEncryptionConfiguration"],
            list(buckets),
            "Inputs are looked for before a job is submitted.",
        )
        for number, buckets in in_chunks(data)
    ]
