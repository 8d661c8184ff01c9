"""The observability stack: who is notified of what happens to the cluster's jobs."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.job_observability import JobObservability

from launcher.cluster.specification import ClusterSpec, ObservabilitySpec
from stacks.access import AccessStack
from stacks.storage import StorageStack


class ObservabilityStack(cdk.Stack):
    """The topic, the dashboard and the alarms of the cluster.

    Attributes:
        observability: what is watched.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        wanted: ObservabilitySpec,
        storage: StorageStack,
        access: AccessStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster that wants to be watched."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: observability")
        self.observability = JobObservability(
            self,
            "Jobs",
            cluster_name=spec.name,
            role_arn=access.role.role_arn,
            file_system=storage.file_system,
            email=wanted.email,
            monthly_budget_usd=wanted.monthly_budget_usd,
            idle_gpu_minutes=wanted.idle_gpu_minutes,
            free_capacity_percent=wanted.free_capacity_percent,
        )
