"""A queue in front of SageMaker training, through which a team shares the capacity it has."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_batch as batch
from constructs import Construct

from launcher.cluster.names import TRAINING_IN_BATCH


class JobQueue(Construct):
    """AWS Batch for SageMaker training jobs: a service environment, a queue, and fair shares.

    Batch starts a queued job when the environment has hosts left for it; with shares, those who have
    used little lately come first. Source: AWS Batch user guide, service-jobs; AWS Batch API
    reference, ShareAttributes.

    Attributes:
        queue_arn: where jobs are submitted.
    """

    def __init__(
        self, scope: Construct, id: str, *, max_instances: int, shares: Mapping[str, float] | None = None
    ) -> None:
        """Create the queue.

        Args:
            scope: the parent construct.
            id: the construct's id.
            max_instances: hosts that all running jobs of the queue may use together.
            shares: weight factors by share identifier; a lower factor gets more. Without shares the
                queue is first in, first out, and a job names no share.
        """
        super().__init__(scope, id)
        environment = batch.CfnServiceEnvironment(
            self,
            "Environment",
            service_environment_type=TRAINING_IN_BATCH,
            capacity_limits=[
                batch.CfnServiceEnvironment.CapacityLimitProperty(
                    capacity_unit="NUM_INSTANCES", max_capacity=max_instances
                )
            ],
        )
        policy = _fair_shares(self, shares) if shares else None
        queue = batch.CfnJobQueue(
            self,
            "Resource",
            job_queue_type=TRAINING_IN_BATCH,
            priority=1,
            scheduling_policy_arn=policy.attr_arn if policy else None,
            service_environment_order=[
                batch.CfnJobQueue.ServiceEnvironmentOrderProperty(
                    order=1, service_environment=environment.attr_service_environment_arn
                )
            ],
        )
        self.queue_arn = queue.attr_job_queue_arn


def _fair_shares(scope: Construct, shares: Mapping[str, float]) -> batch.CfnSchedulingPolicy:
    return batch.CfnSchedulingPolicy(
        scope,
        "FairShare",
        fairshare_policy=batch.CfnSchedulingPolicy.FairsharePolicyProperty(
            # Training runs for days: what a team used in the last week decides, not in the last minutes.
            share_decay_seconds=7 * 24 * 3600,
            share_distribution=[
                batch.CfnSchedulingPolicy.ShareAttributesProperty(share_identifier=name, weight_factor=weight)
                for name, weight in shares.items()
            ],
        ),
    )
