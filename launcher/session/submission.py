"""A plan's way to AWS: the account that it goes to, and the backend that takes it."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.aws.clients import aws_client
from launcher.aws.session import caller_account
from launcher.backends.interface import BackendError, OnProgress
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.planning.training_plan import TrainingPlan
from launcher.session.jobs import queue_backend, sagemaker_backend


@dataclass(frozen=True, slots=True)
class Submission:
    """Where a plan is submitted: straight to SageMaker, or through the cluster's queue."""

    account: str
    backend: SageMakerBackend | QueueBackend

    @classmethod
    def of(cls, plan: TrainingPlan, *, queued: bool = False, share: str | None = None) -> Submission:
        """Open the way of a plan; `share` names the fair share of a queue that has shares.

        Raises AwsRefusal without credentials, BackendError where the plan's cluster has no queue.
        """
        account = caller_account(aws_client("sts", plan.region))
        if not queued:
            return cls(account, sagemaker_backend(plan.region))
        if plan.queue_arn is None:
            cluster = plan.job.get("cluster")
            raise BackendError(
                f"the cluster {cluster} has no queue." if cluster else "the job names no cluster.",
                "Leave out --queue, or add `queue: {}` to the cluster file and deploy it again.",
            )
        return cls(account, queue_backend(plan.queue_arn, share))

    def submit(self, plan: TrainingPlan, on_progress: OnProgress | None = None) -> str:
        """Submit the plan once; return the job's name."""
        return self.backend.submit(plan, on_progress)

    def has_checkpoint(self, job_name: str) -> bool:
        """Whether a job that ended left a complete checkpoint on S3; a queue goes on with its own."""
        return isinstance(self.backend, SageMakerBackend) and self.backend.has_checkpoint(job_name)

    def release_hosts(self, job_name: str) -> None:
        """End the warm pool that a job left; a queue's next attempt is Batch's own matter."""
        if isinstance(self.backend, SageMakerBackend):
            self.backend.release_hosts(job_name)
