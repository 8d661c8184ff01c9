"""The manifest stack: the last to be deployed and the first to be destroyed.

The manifest is a stack of its own so that it appears only once everything it names is there, whatever
stacks come to stand beside these, and is gone before the first of them is taken away: a launcher that
can read it can use what it says.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct
from constructs.cluster_manifest import ClusterManifest
from constructs.mounted_file_system import MountedFileSystem
from constructs.permissions import key_arn
from constructs.training_buckets import TrainingBuckets
from constructs.weak_references import read_weakly

from launcher.cluster.manifest import Buckets, Cluster, ClusterSubnet, HyperPod, Lustre
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import kept_cluster_file
from stacks.access import AccessStack
from stacks.managed import ManagedStack
from stacks.network import NetworkStack
from stacks.observability import ObservabilityStack
from stacks.schedulers import HyperPodStack, QueueStack
from stacks.storage import StorageStack


class ManifestStack(cdk.Stack):
    """The SSM parameter that the launcher reads, and its name as the stack's output."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        network: NetworkStack,
        storage: StorageStack,
        access: AccessStack,
        queue: QueueStack,
        hyperpod: HyperPodStack,
        observability: ObservabilityStack,
        managed: ManagedStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, after all its others."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: manifest")
        for stack in (network, storage, access, queue, hyperpod, observability, managed):
            self.add_stack_dependency(stack, "the manifest is written when everything it names is there")
        manifest = ClusterManifest(
            self,
            "Manifest",
            cluster=Cluster(
                name=spec.name,
                region=spec.region,
                vpc_id=network.vpc_id_seen_from(self),
                subnets=[
                    ClusterSubnet(id=subnet, availability_zone=zone)
                    for subnet, zone in zip(
                        network.subnet_ids_seen_from(self), network.zones_seen_from(self), strict=True
                    )
                ],
                security_group_ids=[network.group_id_seen_from(self)],
                role_arn=read_weakly(access.role.role_arn, owner=access, reader=self),
                buckets=self._bucket_names(storage.buckets),
                kms_key_arn=key_arn(storage.encryption_key, self) if storage.encryption_key else None,
                lustre=_lustre(
                    storage.file_system_seen_from(self), zone=storage.file_system_zone_seen_from(self)
                ),
                queue_arn=queue.arn_seen_from(self),
                topic_arn=observability.topic_arn_seen_from(self),
                controller_arn=managed.controller_arn_seen_from(self),
                hyperpod=_hyperpod(spec, hyperpod.arn_seen_from(self)),
                secrets=spec.secrets,
            ),
            cluster_file=kept_cluster_file(spec),
        )
        cdk.CfnOutput(self, "ManifestParameter", value=manifest.parameter_name)

    def _bucket_names(self, buckets: TrainingBuckets) -> Buckets:
        def name(bucket: s3.IBucket) -> str:
            return read_weakly(bucket.bucket_name, owner=cdk.Stack.of(bucket), reader=self)

        return Buckets(
            code=name(buckets.code), checkpoints=name(buckets.checkpoints), output=name(buckets.output)
        )


def _hyperpod(spec: ClusterSpec, cluster_arn: str | None) -> HyperPod | None:
    if spec.hyperpod is None or cluster_arn is None:
        return None
    return HyperPod(cluster_arn=cluster_arn, entry_group=spec.hyperpod.entry_group.name)


def _lustre(file_system: MountedFileSystem | None, *, zone: str) -> Lustre | None:
    if file_system is None:
        return None
    return Lustre(
        id=file_system.file_system_id,
        mount_name=file_system.mount_name,
        subnet_id=file_system.subnet_id,
        availability_zone=zone,
        security_group_id=file_system.security_group_id,
    )
