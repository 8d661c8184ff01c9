"""The jobs of a cluster that have not ended, by what they carry and what they use of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.account.questions.running_jobs import fetch_running_jobs
from launcher.account.running_jobs import RunningJob
from launcher.aws.clients import Clients
from launcher.aws.stacks import DeployedStack
from launcher.backends.interface import JobQuery
from launcher.session.jobs import queue_backend


@dataclass(frozen=True, slots=True)
class ClusterJob:
    """A job that has not ended: its name, and where it is (`running` on SageMaker, `queued` in the queue)."""

    name: str
    place: str


def unfinished_jobs(
    name: str, stacks: Sequence[DeployedStack], clients: Clients, region: str
) -> tuple[ClusterJob, ...]:
    """The jobs that carry a cluster's tag, use a role or a subnet of its stacks, or wait in its queue.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    return tuple(_unfinished(name, stacks, clients, region))


def _unfinished(
    name: str, stacks: Sequence[DeployedStack], clients: Clients, region: str
) -> Iterator[ClusterJob]:
    roles = {each.physical_id for stack in stacks for each in stack.of_type("AWS::IAM::Role")}
    subnets = {each.physical_id for stack in stacks for each in stack.of_type("AWS::EC2::Subnet")}

    def is_ours(job: RunningJob) -> bool:
        role = (job.role_arn or "").rpartition("/")[2]
        return job.cluster == name or role in roles or not subnets.isdisjoint(job.subnet_ids)

    running = [each.name for each in fetch_running_jobs(clients("sagemaker", region)) if is_ours(each)]
    yield from (ClusterJob(each, "running") for each in running)
    queues = [each.physical_id for stack in stacks for each in stack.of_type("AWS::Batch::JobQueue")]
    for queue in queues:
        for queued in queue_backend(clients, queue, region).jobs(JobQuery()):
            if not queued.state.is_final and queued.name not in running:
                yield ClusterJob(queued.name, "queued")
