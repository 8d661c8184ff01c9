"""The managed stack: the controller that goes on with runs that were handed over to it."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from constructs import Construct
from constructs.managed_runs import ManagedRuns
from constructs.weak_references import read_weakly

from launcher.cluster.specification import ClusterSpec
from stacks.access import AccessStack
from stacks.controller_package import controller_package
from stacks.network import NetworkStack, removal_policy
from stacks.observability import ObservabilityStack
from stacks.storage import StorageStack


class ManagedStack(cdk.Stack):
    """The controller of the cluster's managed runs; none where the cluster file does not ask for it.

    Attributes:
        runs: the controller with what wakes it up, or None.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        network: NetworkStack,
        storage: StorageStack,
        access: AccessStack,
        observability: ObservabilityStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, beside what its jobs use."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: managed runs")
        self.runs = self._runs(spec, network, storage, access, observability) if spec.managed else None

    def controller_arn_seen_from(self, stack: cdk.Stack) -> str | None:
        """The function's ARN for use in another stack, or None where runs are not managed."""
        return None if self.runs is None else read_weakly(self.runs.function_arn, owner=self, reader=stack)

    def _runs(
        self,
        spec: ClusterSpec,
        network: NetworkStack,
        storage: StorageStack,
        access: AccessStack,
        observability: ObservabilityStack,
    ) -> ManagedRuns:
        package, buckets = controller_package(), storage.buckets
        return ManagedRuns(
            self,
            "Runs",
            cluster_name=spec.name,
            package=lambda_.Code.from_asset(str(package.folder), asset_hash=package.asset_hash),
            package_digest=package.digest,
            runtime=package.runtime,
            role_arn=read_weakly(access.role.role_arn, owner=access, reader=self),
            code=buckets.code,
            checkpoints=buckets.checkpoints,
            output=buckets.output,
            subnet_ids=network.subnet_ids_seen_from(self),
            security_group_ids=[network.group_id_seen_from(self)],
            removal_policy=removal_policy(spec),
            encryption_key=storage.encryption_key,
            written_with=spec.data_keys if spec.buckets.existing else [],
            topic_arn=observability.topic_arn_seen_from(self),
            topic_key_arn=observability.topic_key_arn_seen_from(self),
        )
