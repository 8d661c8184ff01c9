"""A training job as DescribeTrainingJob tells it, in the launcher's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from launcher.backends.interface import JobState, JobStatus, Transition
from launcher.backends.sagemaker.shell import shell_commands
from launcher.diagnosis.ending import Stop, StopCause
from launcher.failure_modes.refusal import AwsRefusal

if TYPE_CHECKING:
    from launcher.planning.request_view import RequestView

_OTHER_STATES = {"Deleting": JobState.STOPPED, "DeleteFailed": JobState.STOPPED}
"""States of a job that has ended and is taken away (TrainingJobStatus of the API model)."""


def status_of(job: Mapping[str, Any]) -> JobStatus:
    """The status in an answer of DescribeTrainingJob."""
    # Listing and stopping jobs reads no requests.
    from launcher.planning.request_view import RequestView

    transitions = tuple(map(_transition, job.get("SecondaryStatusTransitions", ())))
    request = RequestView(job)
    return JobStatus(
        name=str(job["TrainingJobName"]),
        state=job_state(job["TrainingJobStatus"]),
        phase=job.get("SecondaryStatus", job["TrainingJobStatus"]),
        failure_reason=job.get("FailureReason"),
        checkpoints=request.checkpoints.prefix,
        output=job.get("ModelArtifacts", {}).get("S3ModelArtifacts"),
        seconds=seconds_of(job),
        explanation=_explanation(job),
        transitions=transitions,
        hosts=request.hosts,
        processes_per_host=request.processes_per_host,
        metrics=request.metrics,
        request=request,
        stop=_stop(job_state(job["TrainingJobStatus"]), job, request, transitions),
        shell=shell_commands(job, request),
    )


def job_state(text: str) -> JobState:
    """A TrainingJobStatus or HyperParameterTuningJobStatus of the API. Raises AwsRefusal for another text."""
    try:
        return _OTHER_STATES.get(text) or JobState(text)
    except ValueError:
        raise AwsRefusal(
            f"AWS says that a job is {text!r}, a state that this launcher does not know.",
            "Check the network (a proxy that answers in AWS's place), and look for a newer launcher.",
        ) from None


def seconds_of(job: Mapping[str, Any]) -> float | None:
    """The time since the job's creation, to its end or to the moment of the answer.

    By the service's clock in both: this machine's may be wrong.
    """
    started = job.get("CreationTime")
    if started is None:
        return None
    ended = job.get("TrainingEndTime") or job.get("HyperParameterTuningEndTime") or _answered_at(job)
    return max(0.0, float((ended - started).total_seconds()))


def _stop(
    state: JobState, job: Mapping[str, Any], request: RequestView, transitions: Sequence[Transition]
) -> Stop | None:
    """What ended the job from outside; None where nothing did, or a spot job never got its hosts.

    A spot interruption after which the service starts the job again is none. Who called StopTrainingJob is
    known to CloudTrail alone. Source: SageMaker API reference, DescribeTrainingJob (SecondaryStatus).
    """
    if state not in (JobState.STOPPING, JobState.STOPPED):
        return None
    at = _stopped_at(transitions)
    match job.get("SecondaryStatus"):
        case "MaxRuntimeExceeded":
            return Stop(StopCause.MAX_RUNTIME, at=at, limit=request.max_runtime_seconds)
        case "MaxWaitTimeExceeded":
            trained = any(each.phase == "Training" for each in transitions)
            return Stop(StopCause.MAX_WAIT, at=at, limit=request.max_wait_seconds) if trained else None
        case "Interrupted":
            return Stop(StopCause.SPOT, at=at)
    return Stop(StopCause.ASKED, "whoever called StopTrainingJob (CloudTrail knows)", at)


def _stopped_at(transitions: Sequence[Transition]) -> float | None:
    """When the stop began, which is before the containers got their signal."""
    asked = next((each.started for each in transitions if each.phase == "Stopping"), None)
    if asked is not None:
        return asked
    worked = [each.ended for each in transitions if each.phase == "Training" and each.ended is not None]
    return worked[-1] if worked else transitions[-1].started if transitions else None


def _answered_at(job: Mapping[str, Any]) -> datetime:
    date = job.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    try:
        time = parsedate_to_datetime(date) if date else None
    except ValueError:
        time = None
    if time is None:
        return datetime.now(UTC)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _transition(described: Mapping[str, Any]) -> Transition:
    ended = described.get("EndTime")
    return Transition(
        described["Status"], described["StartTime"].timestamp(), ended.timestamp() if ended else None
    )


def _explanation(job: Mapping[str, Any]) -> str | None:
    transitions = job.get("SecondaryStatusTransitions", ())
    return (transitions[-1].get("StatusMessage") or None) if transitions else None
