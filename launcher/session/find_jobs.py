"""A job by its name: in this project's local runs, on Slurm, on SageMaker, else in the queue of a cluster.

Each place is asked in turn, and none stands in the way of another: a queue that cannot be asked, or that is
gone, is told only where the job was found nowhere.
"""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.aws.clients import FOLLOWING, PATIENT, CallSettings, Clients
from launcher.backends.interface import (
    Backend,
    BackendError,
    FoundJob,
    JobQuery,
    JobState,
    JobStatus,
    JobSummary,
    UnknownJob,
)
from launcher.backends.local.backend import LocalBackend
from launcher.backends.queue import QueueBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.cluster.manifest import cached_manifests
from launcher.failure_modes.model import AwsRefusal, Refusal, UnusableSession
from launcher.frozen import frozen
from launcher.session.local_runs import local_home
from launcher.session.slurm.known_folders import known_backends
from launcher.text.values import nearest

if TYPE_CHECKING:
    # Most jobs are of no managed run.
    from launcher.session.managed.records import Records
    from launcher.session.managed.show_run import ManagedRun

_NAMES_TO_COMPARE = 500

_CALL_SETTINGS: Mapping[str, CallSettings] = {"logs": FOLLOWING}
"""How a backend calls a service, where that is not patiently."""


@frozen
class StopAnswer:
    """Whether a job was asked to stop, and how it was before, where that is known; `run` is the managed run
    that was ended with it, by its first attempt's name."""

    asked: bool
    state: JobState | None
    run: str | None = None


def find_job(name: str, clients: Clients, region: str | None, home: Path | None = None) -> FoundJob:
    """The job of that name; of a managed run, by its first attempt's name, the newest attempt, and attempt N
    by `NAME/N`.

    Raises UnknownJob, with the nearest known names, where no place has it, and AwsRefusal where a place that
    may have it cannot be asked.
    """
    place = home or local_home()
    local = LocalBackend(place)
    if local.holds(name):
        return FoundJob(local, local.describe(name))
    for on_slurm in known_backends():
        if on_slurm.holds(name):
            return FoundJob(on_slurm, on_slurm.describe(name))
    try:
        backend = sagemaker_backend(clients, region)
        return _find_on_sagemaker(backend, name, clients, region)
    except UnknownJob as unknown:
        queued, silent = _queued(name, clients, region)
        if queued is not None:
            return queued
        names = [each for there in known_backends() for each in there.job_names()]
        near = _nearest(name, [*_names(local), *names, *_names(backend)])
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        # Where a queue did not answer, nobody knows.
        kind = AwsRefusal if silent else UnknownJob
        raise kind(unknown.message + silent, f"{hint}{unknown.remedy} {_where_local(place)}") from None
    except AwsRefusal as refusal:
        # A queue has a region of its own; without credentials no queue can be asked either.
        if region is None or not isinstance(refusal, UnusableSession):
            queued, _ = _queued(name, clients, region)
            if queued is not None:
                return queued
        raise _with_local_names(refusal, name, local, place) from refusal


def _find_on_sagemaker(
    backend: SageMakerBackend, name: str, clients: Clients, region: str | None
) -> FoundJob:
    first, slash, number = name.partition("/")
    status = backend.describe(first)
    if status.request is None or not status.request.is_managed:
        # The service says of another name what is wrong with it.
        return FoundJob(backend, backend.describe(name) if slash else status)
    from launcher.session.managed.show_run import find_attempt

    return find_attempt(backend, status, lambda: clients("s3", region), number)


def stop_job(name: str, clients: Clients, region: str | None, home: Path | None = None) -> StopAnswer:
    """Ask a job to stop; nothing happens to one that has ended.

    One that cannot be looked at is asked all the same: it may cost money. Raises as `find_job`, and what the
    place says that refuses to stop it.
    """
    try:
        job = find_job(name, clients, region, home)
    except UnusableSession:
        raise
    except AwsRefusal as unseen:
        try:
            sagemaker_backend(clients, region).stop(name, _who_asks())
        except UnknownJob:
            raise unseen from None
        return StopAnswer(asked=True, state=None)
    records = _run_records(job.status, clients, region)
    if records is not None:
        from launcher.session.managed.show_run import stop_run

        state = stop_run(job.backend, records, _who_asks())
        return StopAnswer(asked=not state.is_final, state=state, run=records.first)
    ended = job.status.state.is_final
    if not ended:
        job.backend.stop(job.name, _who_asks())
    return StopAnswer(asked=not ended, state=job.status.state)


def list_jobs(
    query: JobQuery,
    clients: Clients,
    region: str | None,
    *,
    local: bool = False,
    slurm: bool = False,
    queue: str | None = None,
    or_local: bool = False,
    home: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> list[JobSummary]:
    """The jobs of this project, of Slurm, of a cluster's queue, or of the account and region; newest first.

    With `or_local` those of this project, where it has some, without credentials or a region. `tell` hears of
    that, of where they are, and of each that cannot be read, in a sentence. Raises Refusal for a cluster that
    is not known on this machine or has no queue.
    """
    place = home or local_home()
    if local:
        found = _local_jobs(place, query, tell)
        if not found and not _names(LocalBackend(place)):
            tell(_where_local(place))
        return found
    if slurm:
        return _slurm_jobs(query, tell)
    if queue is not None:
        return _queue_of(queue, clients).jobs(query)
    try:
        return sagemaker_backend(clients, region).jobs(query)
    except UnusableSession as refusal:
        if not or_local or not _names(LocalBackend(place)):
            raise _with_place(refusal, place) from refusal
        tell(f"{refusal.message} These are the local runs in {place}. For those on AWS: {refusal.remedy}")
        return _local_jobs(place, query, tell)


def _local_jobs(place: Path, query: JobQuery, tell: Callable[[str], None]) -> list[JobSummary]:
    backend = LocalBackend(place)
    for problem in backend.unreadable():
        tell(f"not listed: {problem.message} {problem.remedy}")
    return backend.jobs(query)


def _slurm_jobs(query: JobQuery, tell: Callable[[str], None]) -> list[JobSummary]:
    backends = known_backends()
    if not backends:
        tell("no run was launched on Slurm from this machine yet; a job file names the folder that has them")
    jobs = []
    for backend in backends:
        try:
            jobs += backend.jobs(query)
        except (BackendError, AwsRefusal) as problem:
            if len(backends) == 1 and isinstance(problem, AwsRefusal):
                raise
            tell(f"not listed: {problem.message} {problem.remedy}")
    return query.select(jobs)


def sagemaker_backend(clients: Clients, region: str | None) -> SageMakerBackend:
    """The backend of a region, whose clients can be made again when credentials have expired.

    Raises AwsRefusal where no region is known.
    """

    def made() -> tuple[Any, Any, Any]:
        sagemaker, logs, s3 = (
            clients(service, region, _CALL_SETTINGS.get(service, PATIENT))
            for service in ("sagemaker", "logs", "s3")
        )
        return sagemaker, logs, s3

    def renewed() -> tuple[Any, Any, Any]:
        clients.renew()
        return made()

    return SageMakerBackend(*made(), renewed)


def queue_backend(
    clients: Clients, queue_arn: str, region: str | None, share: str | None = None
) -> QueueBackend:
    """The backend of a queue of that region; `share` names the fair share to submit under."""
    training = sagemaker_backend(clients, region)

    def batch() -> Any:
        return clients("batch", region)

    return QueueBackend(
        batch(), queue_arn, training=training, provide=training.provide, share=share, renewed=batch
    )


def find_run(found: FoundJob, clients: Clients, region: str | None) -> ManagedRun | None:
    """The managed run that a job is an attempt of; None of any other job. Raises AwsRefusal where AWS refuses
    its records."""
    records = _run_records(found.status, clients, region)
    if records is None:
        return None
    from launcher.session.managed.show_run import read_run

    return read_run(records)


def _run_records(status: JobStatus, clients: Clients, region: str | None) -> Records | None:
    """The records of the managed run that a job is an attempt of; None of any other job."""
    if status.request is None or not status.request.is_managed:
        return None
    from launcher.session.managed.show_run import records_of

    return records_of(status, lambda: clients("s3", region))


def managed_runs(cluster: str, clients: Clients) -> list[ManagedRun]:
    """The managed runs of a cluster, newest first.

    Raises Refusal for a cluster that is not known on this machine or has no controller, AwsRefusal where AWS
    refuses.
    """
    from launcher.session.managed.show_run import list_runs

    known = {each.name: each for each in cached_manifests() if each.controller_arn}
    if cluster not in known:
        names = ", ".join(known) or "none"
        raise Refusal(
            f"no controller of a cluster {cluster} is known on this machine; known are: {names}.",
            "Correct the name, or submit a job to the cluster once, which reads its manifest.",
        )
    found = known[cluster]
    bucket = found.buckets.code
    return list_runs(clients("s3", found.region), bucket, found.bucket_owners.get(bucket))


def _who_asks() -> str:
    """This command, for the record of a job that is stopped."""
    try:
        user = f", user {getpass.getuser()}"
    except (OSError, KeyError):
        user = ""  # A container's user id may have no name.
    return f"launch stop (process {os.getpid()}{user})"


def _queue_of(cluster: str, clients: Clients) -> QueueBackend:
    known = {each.name: each for each in cached_manifests() if each.queue_arn}
    found = known.get(cluster)
    if found is None or found.queue_arn is None:
        names = ", ".join(known) or "none"
        raise Refusal(
            f"no queue of a cluster {cluster} is known on this machine; known are: {names}.",
            "Correct the name, or submit a job to the cluster once, which reads its manifest.",
        )
    return queue_backend(clients, found.queue_arn, found.region)


def _queued(name: str, clients: Clients, region: str | None) -> tuple[FoundJob | None, str]:
    """The job in the queue of a known cluster of this region, and which queues could not be asked."""
    silent = ""
    for cluster in cached_manifests():
        if cluster.queue_arn and region in (None, cluster.region):
            try:
                queue = queue_backend(clients, cluster.queue_arn, cluster.region)
                if queue.holds(name):
                    return FoundJob(queue, queue.describe(name)), silent
            except AwsRefusal as refusal:
                silent += f" The queue of the cluster {cluster.name} could not be asked: {refusal.message}"
    return None, silent


def _with_local_names(refusal: AwsRefusal, name: str, local: LocalBackend, place: Path) -> AwsRefusal:
    """The refusal with the local jobs that may have been meant; without AWS no others can be."""
    near = _nearest(name, _names(local))
    if not near:
        return _with_place(refusal, place)
    hint = f"Or did you mean the local job {' or '.join(near)}?"
    return type(refusal)(refusal.message, f"{refusal.remedy} {hint}")


def _with_place(refusal: AwsRefusal, place: Path) -> AwsRefusal:
    """The refusal with where local runs were looked for, where no call to AWS would succeed."""
    if not isinstance(refusal, UnusableSession):
        return refusal
    return type(refusal)(refusal.message, f"{refusal.remedy} {_where_local(place)}")


def _where_local(place: Path) -> str:
    """Where local runs were looked for: each belongs to the project in which it was launched."""
    number = len(_names(LocalBackend(place)))
    count = "none" if not number else f"{number}: launch list --local"
    return f"Local runs belong to the folder in which they were launched; {place} has {count}."


def _names(backend: Backend) -> list[str]:
    try:
        return [job.name for job in backend.jobs(JobQuery(limit=_NAMES_TO_COMPARE))]
    except Refusal:
        return []  # The names are only a help; what is wrong was said already.


def _nearest(name: str, known: list[str]) -> list[str]:
    """The known names that it could be a mistake for: alike, or with it as their beginning."""
    beginning = [each for each in known if name and each.startswith(name)]
    alike = nearest(name, known, most=3, likeness=0.8)
    return list(dict.fromkeys([*alike, *beginning]))[:3]
