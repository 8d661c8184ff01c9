"""A job by its name: in this folder's local runs, else on SageMaker."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.account.aws import aws_client, renew_credentials
from launcher.backends.interface import Backend, JobQuery, JobStatus, JobSummary, UnknownJob
from launcher.backends.local.backend import LocalBackend
from launcher.backends.sagemaker.backend import SageMakerBackend
from launcher.backends.sagemaker.logs import CONNECTIONS
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
    backend = open_job(name, region, home)
    try:
        return FoundJob(backend, backend.describe(name))
    except UnknownJob as unknown:
        near = _nearest(name, [*_names(LocalBackend(home)), *_names(backend)])
        if not near:
            raise
        raise UnknownJob(unknown.message, f"Did you mean {' or '.join(near)}? {unknown.remedy}") from None
    except AwsRefusal as refusal:
        near = _nearest(name, _names(LocalBackend(home)))
        if not near:
            raise
        hint = f"Or did you mean the local job {' or '.join(near)}?"
        raise type(refusal)(refusal.message, f"{refusal.remedy} {hint}") from refusal


def list_jobs(
    query: JobQuery, region: str | None, *, local: bool, home: Path = LOCAL_HOME
) -> list[JobSummary]:
    """The jobs of this folder, or of the account and region; newest first."""
    backend: Backend = LocalBackend(home) if local else sagemaker_backend(region)
    return backend.jobs(query)


def sagemaker_backend(region: str | None) -> SageMakerBackend:
    """The backend of a region, with clients that can be made anew when credentials have expired."""

    def client(service: str) -> Any:
        return aws_client(service, region, **_CLIENT_SETTINGS.get(service, {}))

    def renewed(service: str) -> Any:
        renew_credentials()
        return client(service)

    return SageMakerBackend(client("sagemaker"), client("logs"), client("s3"), renewed)


def _local(name: str, region: str | None, home: Path) -> Backend | None:
    local = LocalBackend(home)
    return local if name in local.job_names() else None


_PLACES: tuple[Callable[[str, str | None, Path], Backend | None], ...] = (_local,)
"""Who is asked in turn whether it has the job, before SageMaker."""


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
