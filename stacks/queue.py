"""The queue stack: what a team shares, apart from what its jobs need."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.job_queue import JobQueue

from launcher.cluster.specification import ClusterSpec, QueueSpec


class QueueStack(cdk.Stack):
    """The queue of the cluster's jobs.

    Attributes:
        queue: the queue.
    """

    def __init__(
        self, scope: Construct, id: str, *, spec: ClusterSpec, queue: QueueSpec, env: cdk.Environment
    ) -> None:
        """Create the stack for a cluster that wants a queue."""
        super().__init__(scope, id, env=env, description=f"Slipway cluster {spec.name}: queue")
        self.queue = JobQueue(self, "Queue", max_instances=spec.queue_instances, shares=queue.shares)
