"""The stacks of what decides which job gets hosts when: the queue of training jobs, and Slurm on HyperPod."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.hyperpod_cluster import HyperPodCluster
from constructs.job_queue import JobQueue
from constructs.weak_references import read_weakly

from launcher.cluster.specification import ClusterSpec
from stacks.network import NetworkStack
from stacks.storage import StorageStack


class QueueStack(cdk.Stack):
    """The queue of the cluster's jobs; without one where the cluster file asks for none.

    Attributes:
        queue: the queue, or None.
    """

    def __init__(self, scope: Construct, id: str, *, spec: ClusterSpec, env: cdk.Environment) -> None:
        """Create the stack for a cluster."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Slipway cluster {spec.name}: queue",
            termination_protection=spec.queue is not None and spec.removal_policy == "retain",
        )
        self.queue = (
            None
            if spec.queue is None
            else JobQueue(self, "Queue", max_instances=spec.queue_instances, shares=spec.queue.shares)
        )

    def arn_seen_from(self, stack: cdk.Stack) -> str | None:
        """The queue's ARN for use in another stack, or None without a queue."""
        return None if self.queue is None else read_weakly(self.queue.queue_arn, owner=self, reader=stack)


class HyperPodStack(cdk.Stack):
    """The HyperPod cluster; without one where the cluster file asks for none.

    Attributes:
        hyperpod: the cluster, or None.
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
        """Create the stack for a cluster, beside its network and its file system."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Slipway cluster {spec.name}: HyperPod",
            termination_protection=spec.hyperpod is not None and spec.removal_policy == "retain",
        )
        self.hyperpod = self._hyperpod(spec, network, storage)

    def arn_seen_from(self, stack: cdk.Stack) -> str | None:
        """The cluster's ARN for use in another stack, or None without a cluster."""
        return (
            None
            if self.hyperpod is None
            else read_weakly(self.hyperpod.cluster_arn, owner=self, reader=stack)
        )

    def _hyperpod(
        self, spec: ClusterSpec, network: NetworkStack, storage: StorageStack
    ) -> HyperPodCluster | None:
        file_system = storage.file_system_seen_from(self) if spec.hyperpod else None
        if spec.hyperpod is None or file_system is None:
            return None
        buckets = storage.buckets
        return HyperPodCluster(
            self,
            "HyperPod",
            cluster_name=spec.name,
            hyperpod=spec.hyperpod,
            subnet=network.network.subnets[spec.file_system_subnet],
            security_group=network.efa_security_group,
            file_system=file_system,
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            data_buckets=[
                s3.Bucket.from_bucket_name(self, f"Data{number}", name)
                for number, name in enumerate(spec.data_buckets, 1)
            ],
            encryption_key=storage.encryption_key,
            read_with=[] if spec.buckets.existing else spec.data_keys,
            written_with=spec.data_keys if spec.buckets.existing else [],
        )
