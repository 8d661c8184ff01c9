"""The access stack: who may do what with the cluster."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.training_role import TrainingRole

from launcher.cluster.specification import ClusterSpec
from stacks.network import NetworkStack
from stacks.storage import StorageStack


class AccessStack(cdk.Stack):
    """The execution role of the cluster's training jobs.

    Attributes:
        role: the execution role.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        network: NetworkStack,
        storage: StorageStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, beside what the role opens."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: access")
        self.role = TrainingRole(
            self,
            "TrainingRole",
            code=storage.buckets.code,
            checkpoints=storage.buckets.checkpoints,
            output=storage.buckets.output,
            subnets=network.network.subnets,
            security_groups=[network.efa_security_group],
            file_system_arn=storage.file_system.arn if storage.file_system else None,
        )
