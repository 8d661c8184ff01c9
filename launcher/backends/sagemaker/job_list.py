"""The training jobs of an account and region, newest first."""

from __future__ import annotations

from typing import Any

from launcher.aws.faults import answers
from launcher.backends.interface import JobQuery, JobSummary
from launcher.backends.sagemaker.description import job_state

_PAGE_JOBS = 100
"""The most that one ListTrainingJobs answers (MaxResults of the API model)."""


def list_jobs(sagemaker: Any, query: JobQuery) -> list[JobSummary]:
    """The jobs that the query asks for, newest first; reads no more pages than its limit needs."""
    conditions: dict[str, Any] = {
        "NameContains": query.name,
        "StatusEquals": query.state.value if query.state else None,
        "CreationTimeAfter": query.since,
    }
    found: dict[str, JobSummary] = {}
    token: str | None = None
    while query.limit is None or len(found) < query.limit:
        with answers("list the training jobs"):
            page = sagemaker.list_training_jobs(
                SortBy="CreationTime",
                SortOrder="Descending",
                MaxResults=_PAGE_JOBS,
                **{name: value for name, value in conditions.items() if value is not None},
                **({"NextToken": token} if token else {}),
            )
            jobs = page["TrainingJobSummaries"]
        # A job that was created meanwhile moves the others on, and one may come on two pages.
        for job in jobs:
            # The API takes whole seconds and so also answers the jobs of the very second.
            if query.since is None or job["CreationTime"] > query.since:
                found.setdefault(job["TrainingJobName"], _summary(job))
        token = page.get("NextToken")
        if not token:
            break
    return list(found.values())[: query.limit]


def _summary(job: dict[str, Any]) -> JobSummary:
    return JobSummary(
        name=job["TrainingJobName"],
        state=job_state(job["TrainingJobStatus"]),
        phase=job.get("SecondaryStatus") or job["TrainingJobStatus"],
        created=job["CreationTime"],
        ended=job.get("TrainingEndTime"),
    )
