"""The access stack: who may do what with the cluster."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.launcher_policy import LauncherPolicy
from constructs.training_role import TrainingRole

from launcher.cluster.specification import ClusterSpec
from stacks.network import NetworkStack
from stacks.queue import QueueStack
from stacks.storage import StorageStack


class AccessStack(cdk.Stack):
    """The execution role of the cluster's training jobs, and the policy of those who launch them.

    Attributes:
        role: the execution role.
        launcher_policy: a managed policy, attached to nobody yet; its ARN is the stack's output.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        network: NetworkStack,
        storage: StorageStack,
        queue: QueueStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, beside what the role opens."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: access")
        buckets = storage.buckets
        data_buckets = [
            s3.Bucket.from_bucket_name(self, f"Data{number}", name)
            for number, name in enumerate(spec.data_buckets, 1)
        ]
        self.role = TrainingRole(
            self,
            "TrainingRole",
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            data_buckets=data_buckets,
            subnets=network.network.subnets,
            security_groups=[network.efa_security_group],
            file_system=spec.lustre is not None,
            encryption_key=storage.encryption_key,
        )
        self.launcher_policy = LauncherPolicy(
            self,
            "LauncherPolicy",
            cluster_name=spec.name,
            role=self.role,
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            subnets=network.network.subnets,
            security_groups=[network.efa_security_group],
            data_buckets=data_buckets,
            encryption_key=storage.encryption_key,
            file_system=spec.lustre is not None,
            queue_arn=queue.arn_seen_from(self),
            launchers=spec.launchers,
        )
        cdk.CfnOutput(self, "LauncherPolicyArn", value=self.launcher_policy.managed_policy_arn)
