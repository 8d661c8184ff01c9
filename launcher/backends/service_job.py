"""A service job as AWS Batch tells it, in the launcher's words: its state, its reason, its training jobs.

Source: AWS Batch user guide, service-jobs; AWS Batch API reference, DescribeServiceJob.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import JobState, JobSummary
from launcher.diagnosis.ending import Stop, StopCause

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

_MOST_ATTEMPTS = 10
"""Attempts of a service job (AWS Batch API, ServiceJobRetryStrategy)."""

_STATES = {"SUCCEEDED": JobState.COMPLETED, "FAILED": JobState.FAILED}
_FROM_SAGEMAKER = "Received status from SageMaker: "
_TRAINING_JOB = re.compile(r":training-job/(?P<name>[^/]+)$")


def retries_of(request: RequestView) -> dict[str, Any]:
    """How often the queue starts a job again, and after what.

    The reason that it compares begins with its own words. It repeats a job without capacity by itself
    and without counting. Source: AWS Batch user guide, service-job-retries.
    """
    return {
        "attempts": min(request.max_retries + 1, _MOST_ATTEMPTS),
        "evaluateOnExit": [
            {"action": "RETRY", "onStatusReason": f"{_FROM_SAGEMAKER}InternalServerError*"},
            {"action": "EXIT", "onStatusReason": "*"},
        ],
    }


def state_in_queue(job: Mapping[str, Any]) -> JobState:
    """How the job stands; one that was terminated has not failed."""
    state = _STATES.get(job["status"], JobState.IN_PROGRESS)
    if not job.get("isTerminated"):
        return state
    return JobState.STOPPED if state.is_final else JobState.STOPPING


def phase_in_queue(status: str, state: JobState) -> str:
    """What to call the phase of a job that no training job was created for."""
    return state.value if state is not JobState.IN_PROGRESS else f"Queued ({status.lower()})"


def reason_of(job: Mapping[str, Any]) -> str | None:
    """Why the job failed, in SageMaker's words where the queue only hands them on."""
    reason = job.get("statusReason")
    return None if reason is None else str(reason).removeprefix(_FROM_SAGEMAKER)


def stop_of(job: Mapping[str, Any], state: JobState, training: Stop | None = None) -> Stop | None:
    """What ended the job from outside: who took it out of the queue, else what ended its training job."""
    if state not in (JobState.STOPPING, JobState.STOPPED) or not job.get("isTerminated"):
        return training
    who, ended = reason_of(job), job.get("stoppedAt")
    if training is None:
        return Stop(StopCause.QUEUE, who, ended / 1000 if ended else None)
    return replace(training, who=who.removeprefix("stopped by ")) if who else training


def attempts_of(job: Mapping[str, Any]) -> list[str]:
    """The names of the training jobs that were created for it, the oldest first."""
    resources = [
        each.get("serviceResourceId") for each in (*job.get("attempts", ()), job.get("latestAttempt")) if each
    ]
    names = [_TRAINING_JOB.search(each["value"]) for each in resources if each]
    return list(dict.fromkeys(match["name"] for match in names if match))


def summary_of(job: Mapping[str, Any]) -> JobSummary:
    """The job in a list, from a summary of ListServiceJobs."""
    state = state_in_queue(job)
    return JobSummary(
        name=job["jobName"],
        state=state,
        phase=phase_in_queue(job["status"], state),
        created=_time(job["createdAt"]),
        ended=_time(job["stoppedAt"]) if job.get("stoppedAt") else None,
    )


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """The time since the job came into the queue, to its end or until now."""
    created = job.get("createdAt")
    if created is None:
        return None
    ended = float(job.get("stoppedAt") or time.time() * 1000)
    return max(0.0, (ended - float(created)) / 1000)
