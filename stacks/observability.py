"""The observability stack: who is notified of what happens to the cluster's jobs."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.job_logs import keep_job_logs
from constructs.job_observability import JobObservability
from constructs.weak_references import read_weakly

from launcher.cluster.specification import ClusterSpec, ObservabilitySpec
from stacks.access import AccessStack
from stacks.storage import StorageStack


class ObservabilityStack(cdk.Stack):
    """The topic, the dashboard and the alarms of the cluster; none where it is not to be watched.

    Attributes:
        observability: what is watched, or None.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        spec: ClusterSpec,
        storage: StorageStack,
        access: AccessStack,
        env: cdk.Environment,
    ) -> None:
        """Create the stack for a cluster, beside what is watched."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: observability")
        self.observability = (
            self._watch(spec, spec.observability, storage, access) if spec.observability else None
        )

    def topic_arn_seen_from(self, stack: cdk.Stack) -> str | None:
        """The topic's ARN for use in another stack, or None where nothing is watched."""
        if self.observability is None:
            return None
        return read_weakly(self.observability.topic.topic_arn, owner=self, reader=stack)

    def topic_key_arn_seen_from(self, stack: cdk.Stack) -> str | None:
        """The ARN of the topic's key for use in another stack, or None where nothing is watched."""
        if self.observability is None:
            return None
        return read_weakly(self.observability.topic_key.key_arn, owner=self, reader=stack)

    def _watch(
        self, spec: ClusterSpec, wanted: ObservabilitySpec, storage: StorageStack, access: AccessStack
    ) -> JobObservability:
        if wanted.job_log_days is not None:
            keep_job_logs(self, "JobLogs", days=wanted.job_log_days)
        return JobObservability(
            self,
            "Jobs",
            cluster_name=spec.name,
            role_arn=read_weakly(access.role.role_arn, owner=access, reader=self),
            file_system=storage.file_system_seen_from(self),
            email=wanted.email,
            monthly_budget_usd=wanted.monthly_budget_usd,
            idle_gpu_minutes=wanted.idle_gpu_minutes,
            free_capacity_percent=wanted.free_capacity_percent,
        )
