"""A job by its name: in this folder's local runs, in the queue of a cluster, else on SageMaker."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.aws.clients import aws_client
from launcher.aws.session import renew_credentials
from launcher.backends.interface import Backend, JobQuery, JobStatus, JobSummary, UnknownJob
from launcher.backends.local.backend import LocalBackend
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.backends.sagemaker.logs import CONNECTIONS
from launcher.cluster.manifest_store import cached_manifests
from launcher.failure_modes.refusal import AwsRefusal, Refusal

LOCAL_HOME = Path(".slipway") / "local"
"""Where local runs are kept, below the current directory."""

_NAMES_TO_COMPARE = 500

_CLIENT_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    # Following does its own waiting, so a fault may show early; calls for logs are many.
    "logs": {"connections": CONNECTIONS, "attempts": 3, "paced": True},
}


@dataclass(frozen=True, slots=True)
class FoundJob:
    """A job, the backend that has it, and how it was when it was found."""

    backend: Backend
    status: JobStatus

    @property
    def name(self) -> str:
        """The job's name."""
        return self.status.name


def open_job(name: str, region: str | None, home: Path = LOCAL_HOME) -> Backend:
    """The backend that has a job of that name; for a name that nobody knows here, SageMaker's.

    Raises AwsRefusal where SageMaker is to be asked and no region is known.
    """
    for place in _PLACES:
        backend = place(name, region, home)
        if backend is not None:
            return backend
    return sagemaker_backend(region)


def find_job(name: str, region: str | None, home: Path = LOCAL_HOME) -> FoundJob:
    """The job of that name. Raises UnknownJob, with the nearest known names, where there is none."""
    try:
        backend = open_job(name, region, home)
    except AwsRefusal as refusal:
        raise _with_local_names(refusal, name, home) from refusal
    try:
        return FoundJob(backend, backend.describe(name))
    except UnknownJob as unknown:
        near = _nearest(name, [*_names(LocalBackend(home)), *_names(backend)])
        if not near:
            raise
        raise UnknownJob(unknown.message, f"Did you mean {' or '.join(near)}? {unknown.remedy}") from None
    except AwsRefusal as refusal:
        raise _with_local_names(refusal, name, home) from refusal


def list_jobs(
    query: JobQuery,
    region: str | None,
    *,
    local: bool = False,
    queue: str | None = None,
    home: Path = LOCAL_HOME,
) -> list[JobSummary]:
    """The jobs of this folder, of a cluster's queue, or of the account and region; newest first.

    Raises Refusal for a cluster that is not known on this machine or has no queue.
    """
    if local:
        return LocalBackend(home).jobs(query)
    if queue is not None:
        return _queue_of(queue).jobs(query)
    return sagemaker_backend(region).jobs(query)


def sagemaker_backend(region: str | None) -> SageMakerBackend:
    """The backend of a region, with clients that can be made anew when credentials have expired."""

    def client(service: str) -> Any:
        return aws_client(service, region, **_CLIENT_SETTINGS.get(service, {}))

    def renewed(service: str) -> Any:
        renew_credentials()
        return client(service)

    return SageMakerBackend(client("sagemaker"), client("logs"), client("s3"), renewed)


def queue_backend(queue_arn: str, share: str | None = None) -> QueueBackend:
    """The backend of a queue, in the queue's own region; `share` names the fair share to submit under."""
    region = queue_arn.split(":")[3]
    training = sagemaker_backend(region)

    def client(service: str) -> Any:
        return aws_client(service, region)

    return QueueBackend(
        client("batch"), queue_arn, training=training, provide=training.provide, share=share, renewed=client
    )


def _queue_of(cluster: str) -> QueueBackend:
    known = {each.name: each.queue_arn for each in cached_manifests()}
    queue_arn = known.get(cluster)
    if queue_arn is None:
        names = ", ".join(name for name, queue in known.items() if queue) or "none"
        raise Refusal(
            f"no queue of a cluster {cluster} is known on this machine; known are: {names}.",
            "Correct the name, or submit a job to the cluster once, which reads its manifest.",
        )
    return queue_backend(queue_arn)


def _queued(name: str, region: str | None, home: Path) -> Backend | None:
    """The queue of a known cluster of this region that has the job."""
    for cluster in cached_manifests():
        if cluster.queue_arn and region in (None, cluster.region):
            queue = queue_backend(cluster.queue_arn)
            if queue.holds(name):
                return queue
    return None


def _local(name: str, region: str | None, home: Path) -> Backend | None:
    local = LocalBackend(home)
    return local if name in local.job_names() else None


_PLACES: tuple[Callable[[str, str | None, Path], Backend | None], ...] = (_local, _queued)
"""Who is asked in turn whether it has the job, before SageMaker."""


def _with_local_names(refusal: AwsRefusal, name: str, home: Path) -> AwsRefusal:
    """The refusal with the local jobs that may have been meant; without AWS no others can be."""
    near = _nearest(name, _names(LocalBackend(home)))
    if not near:
        return refusal
    hint = f"Or did you mean the local job {' or '.join(near)}?"
    return type(refusal)(refusal.message, f"{refusal.remedy} {hint}")


def _names(backend: Backend) -> list[str]:
    try:
        return [job.name for job in backend.jobs(JobQuery(limit=_NAMES_TO_COMPARE))]
    except Refusal:
        return []  # The names are only a help; what is wrong was said already.


def _nearest(name: str, known: list[str]) -> list[str]:
    """The known names that it could be a mistake for: alike, or with it as their beginning."""
    beginning = [each for each in known if name and each.startswith(name)]
    alike = difflib.get_close_matches(name, known, n=3, cutoff=0.8)
    return list(dict.fromkeys([*alike, *beginning]))[:3]
