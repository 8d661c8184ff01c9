"""What the people who launch jobs may do: the calls that `launch` makes (`permissions.toml`), no others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.permissions import (
    acknowledge_wildcards,
    add_further_policies,
    data_permissions,
    packed,
    permissions_of,
    policy_document,
    words_of,
)

from launcher.cluster.names import manifest_parameter_name
from launcher.failure_modes import storage
from launcher.failure_modes.model import FailureMode

PREVENTS: tuple[FailureMode, ...] = (storage.ROLE_INSUFFICIENT,)


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
        hyperpod_arn: str | None = None,
        managed: bool = False,
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
            hyperpod_arn: the HyperPod cluster whose nodes it may log in on, if any.
            managed: whether there is a controller, to which runs can be handed over.
            launchers: roles, or their ARNs, through which people launch: they may then ask IAM what they
                themselves may do, which users may anyway.
            written_with: ARNs of further keys, of buckets that it writes into.
            team: the team that the policy is for; it can do with its own jobs, whose names begin with the
                team's and a hyphen, what without a team can be done with all.
        """
        stack = cdk.Stack.of(scope)
        words = words_of(stack, code=code, checkpoints=checkpoints, output=output, key=encryption_key) | {
            "role": role.role_arn,
            "subnets": subnet_ids,
            "security_groups": security_group_ids,
            "file_system": file_system,
            "hyperpod": hyperpod_arn or (),
            "managed": managed,
            "job_types": ("HyperParameterTuningJob", "TrainingJob"),
            "job_resources": ("training-job", "hyper-parameter-tuning-job"),
            "launchers": [each if isinstance(each, str) else each.role_arn for each in launchers],
            "written_with": written_with,
        }
        permissions = permissions_of("launcher", words | _names(cluster_name) | _jobs(team, queue_arn or ""))
        permissions += data_permissions("launcher_data", data_buckets, stack)
        first, *others = packed(permissions, stack)
        description = _description(cluster_name, team)
        super().__init__(scope, id, description=description, document=policy_document(first))
        acknowledge_wildcards(self, first)
        further = add_further_policies(scope, id, others, lambda number: f"{description} ({number})")
        self.arns = [self.managed_policy_arn, *further]


def _description(cluster_name: str, team: str | None) -> str:
    who = "" if team is None else f" as {team}"
    return f"Launch training jobs on Slipway cluster {cluster_name}{who}"


def _names(cluster_name: str) -> dict[str, Any]:
    return {
        "cluster": cluster_name,
        "manifest": manifest_parameter_name(cluster_name).lstrip("/"),
    }


_OF_BATCH = "AWSBatch"
"""What the names of the training jobs begin with that AWS Batch creates, before the name that was submitted
(AWS Batch user guide, service-jobs)."""


def _jobs(team: str | None, queue: str) -> dict[str, Any]:
    """The queue, the names of the jobs and of what the queue makes of them, and the streams of their logs."""
    if team is None:
        return {"queue": queue, "jobs": "*", "queued_jobs": (), "streams": "*"}
    jobs = f"{team}-*"
    queued = [f"{_OF_BATCH}{jobs}"] if queue else []
    return {
        "queue": queue,
        "jobs": jobs,
        "queued_jobs": queued,
        "streams": [f"log-stream:{names}" for names in (jobs, *queued)],
    }
