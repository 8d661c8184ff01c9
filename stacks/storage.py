"""The storage stack: everything with data in it, apart from what is deployed more often."""

from __future__ import annotations

from dataclasses import replace

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from constructs import Construct
from constructs.mounted_file_system import MountedFileSystem
from constructs.training_buckets import TrainingBuckets
from constructs.training_file_system import ClusterFileSystem
from constructs.training_key import TrainingKey

from launcher.cluster.specification import NEW_KEY, ClusterSpec
from launcher.cluster.storage_section import ExistingFileSystem
from stacks.network import NetworkStack, removal_policy


class StorageStack(cdk.Stack):
    """The key, the buckets and, where the cluster file asks for one, the Lustre file system.

    Where data are to be retained the stack is protected from deletion; and when the protection is
    taken away, everything with data in it stays behind.

    Attributes:
        encryption_key: the key of everything here, or None where AWS keeps it.
        buckets: code, checkpoints and output.
        file_system: the file system in the first zone's training subnet, or None where the cluster has
            none or uses one that exists.
    """

    def __init__(
        self, scope: Construct, id: str, *, spec: ClusterSpec, network: NetworkStack, env: cdk.Environment
    ) -> None:
        """Create the stack for a cluster, beside its network."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Slipway cluster {spec.name}: storage",
            termination_protection=spec.removal_policy == "retain",
        )
        self._network = network
        self._existing = spec.lustre.existing if spec.lustre else None
        kept = removal_policy(spec)
        self.encryption_key = self._key(spec, kept)
        self.buckets = TrainingBuckets(
            self,
            "Buckets",
            removal_policy=kept,
            encryption_key=self.encryption_key,
            existing_code=spec.buckets.code,
            existing_checkpoints=spec.buckets.checkpoints,
            existing_output=spec.buckets.output,
            checkpoint_versions=spec.buckets.checkpoint_versions,
        )
        self.file_system = (
            None
            if spec.lustre is None or spec.lustre.existing is not None
            else ClusterFileSystem(
                self,
                "FileSystem",
                vpc=network.network.vpc,
                subnet=network.network.subnets[0],
                clients=network.efa_security_group,
                clients_reach_any_address=not spec.vpc.isolated,
                lustre=spec.lustre,
                encryption_key=self.encryption_key,
                buckets={"checkpoints": self.buckets.checkpoints, "output": self.buckets.output},
                removal_policy=kept,
            )
        )

    def file_system_seen_from(self, stack: cdk.Stack) -> MountedFileSystem | None:
        """The file system for use in another stack, created here or not, or None where there is none.

        Raises:
            ValueError: an existing one was not looked up (`with_file_system_in_full`).
        """
        if self._existing is not None:
            return _mounted(self._existing)
        if self.file_system is None:
            return None
        subnet_id = self._network.subnet_ids_seen_from(stack)[0]
        return replace(self.file_system.seen_from(stack), subnet_id=subnet_id)

    def file_system_zone_seen_from(self, stack: cdk.Stack) -> str:
        """The zone that a file system of the cluster stands in, for use in another stack."""
        given = self._existing.availability_zone if self._existing else None
        return given or self._network.zones_seen_from(stack)[0]

    def _key(self, spec: ClusterSpec, kept: cdk.RemovalPolicy) -> kms.IKey | None:
        if spec.encryption == NEW_KEY:
            return TrainingKey(
                self,
                "Key",
                cluster_name=spec.name,
                removal_policy=kept,
                links_to_s3=bool(spec.lustre and spec.lustre.associations),
            )
        if spec.key_arn is not None:
            return kms.Key.from_key_arn(self, "Key", spec.key_arn)
        return None


def _mounted(existing: ExistingFileSystem) -> MountedFileSystem:
    if not (existing.mount_name and existing.subnet_id and existing.security_group_id):
        raise ValueError(f"only the id of {existing.id} is known")
    return MountedFileSystem(
        file_system_id=existing.id,
        mount_name=existing.mount_name,
        subnet_id=existing.subnet_id,
        security_group_id=existing.security_group_id,
    )
