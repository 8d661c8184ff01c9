"""The access stack: who may do what with the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.launcher_policy import LauncherPolicy
from constructs.training_role import TrainingRole

from launcher.cluster.specification import ClusterSpec
from stacks.network import NetworkStack
from stacks.schedulers import HyperPodStack, QueueStack
from stacks.storage import StorageStack


class AccessStack(cdk.Stack):
    """The execution role of the cluster's training jobs, and the policies of those who launch them.

    Attributes:
        role: the execution role, new or existing.
        launcher_policy: a managed policy, attached to nobody yet; its ARN, and those of what did not fit
            into it, are the stack's output.
        team_policies: the same for each team, by the team's name.
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
        hyperpod: HyperPodStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, beside what the role opens."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: access")
        self._spec, self._network, self._storage, self._queue = spec, network, storage, queue
        self._hyperpod = hyperpod
        self._data_buckets = [
            s3.Bucket.from_bucket_name(self, f"Data{number}", name)
            for number, name in enumerate(spec.data_buckets, 1)
        ]
        self.role = self._role()
        self.launcher_policy = self._policy("LauncherPolicy", spec.launchers)
        self.team_policies = {
            name: self._policy(f"Team{_camel(name)}Policy", team.launchers, team=name)
            for name, team in spec.teams.items()
        }
        self._tell("LauncherPolicyArn", self.launcher_policy)
        for name, policy in self.team_policies.items():
            self._tell(f"Team{_camel(name)}PolicyArn", policy)

    def _role(self) -> iam.IRole:
        spec, buckets = self._spec, self._storage.buckets
        if spec.role is not None and spec.role.existing is not None:
            return iam.Role.from_role_arn(self, "TrainingRole", spec.role.existing, mutable=False)
        return TrainingRole(
            self,
            "TrainingRole",
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            data_buckets=self._data_buckets,
            subnet_ids=self._network.subnet_ids_seen_from(self),
            security_group_ids=[self._network.group_id_seen_from(self)],
            file_system=spec.lustre is not None,
            encryption_key=self._storage.encryption_key,
            read_with=[] if spec.buckets.existing else spec.data_keys,
            written_with=spec.data_keys if spec.buckets.existing else [],
            secrets=spec.secrets,
            secret_keys=spec.secret_keys,
            remote_debug=spec.remote_debug,
        )

    def _policy(self, id: str, launchers: Sequence[str], *, team: str | None = None) -> LauncherPolicy:
        spec, buckets, queue = self._spec, self._storage.buckets, self._queue
        return LauncherPolicy(
            self,
            id,
            cluster_name=spec.name,
            role=self.role,
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            subnet_ids=self._network.subnet_ids_seen_from(self),
            security_group_ids=[self._network.group_id_seen_from(self)],
            data_buckets=self._data_buckets,
            encryption_key=self._storage.encryption_key,
            file_system=spec.lustre is not None,
            queue_arn=queue.arn_seen_from(self),
            hyperpod_arn=self._hyperpod.arn_seen_from(self),
            managed=spec.managed,
            launchers=launchers,
            written_with=spec.data_keys if spec.buckets.existing else [],
            team=team,
        )

    def _tell(self, output: str, policy: LauncherPolicy) -> None:
        cdk.CfnOutput(
            self, output, value=cdk.Fn.join(",", policy.arns) if policy.arns[1:] else policy.arns[0]
        )


def _camel(name: str) -> str:
    """A team's name as ids of the CDK are written, which have no hyphens."""
    return "".join(part.capitalize() for part in name.split("-"))
