"""The queue stack: what a team shares, apart from what its jobs need."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct
from constructs.job_queue import JobQueue
from constructs.weak_references import read_weakly

from launcher.cluster.specification import ClusterSpec


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
