"""The storage stack: everything with data in it, apart from what is deployed more often."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.training_buckets import TrainingBuckets
from constructs.training_file_system import TrainingFileSystem

from launcher.cluster.specification import ClusterSpec
from stacks.network import NetworkStack


class StorageStack(cdk.Stack):
    """The buckets and, where the cluster file asks for one, the Lustre file system.

    Attributes:
        buckets: code, checkpoints and output.
        file_system: the file system in the first zone's training subnet, or None.
    """

    def __init__(
        self, scope: Construct, id: str, *, spec: ClusterSpec, network: NetworkStack, env: cdk.Environment
    ) -> None:
        """Create the stack for a cluster, beside its network."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: storage")
        removal_policy = cdk.RemovalPolicy[spec.removal_policy.upper()]
        self.buckets = TrainingBuckets(self, "Buckets", removal_policy=removal_policy)
        self.file_system = (
            None
            if spec.lustre is None
            else TrainingFileSystem(
                self,
                "FileSystem",
                vpc=network.network.vpc,
                subnet=network.network.subnets[0],
                clients=network.efa_security_group,
                lustre=spec.lustre,
                removal_policy=removal_policy,
            )
        )
