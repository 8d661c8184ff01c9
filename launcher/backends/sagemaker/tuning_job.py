"""A hyperparameter tuning job: how its training jobs stand, and which is best.

It prints nothing itself; each of its training jobs has logs of its own, under its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.aws.faults import answers
from launcher.backends.interface import JobState, JobStatus
from launcher.backends.sagemaker.description import job_state, seconds_of

_COUNTERS = (
    ("InProgress", "running"),
    ("Completed", "completed"),
    ("RetryableError", "to be tried again"),
    ("NonRetryableError", "failed"),
    ("Stopped", "stopped"),
)
"""TrainingJobStatusCounters of the API model, and what is shown for each."""


def describe_tuning_job(sagemaker: Any, name: str) -> JobStatus:
    """How a tuning job is; the phase holds its counters, the explanation its best training job."""
    # Listing and stopping jobs reads no requests.
    from launcher.planning.request_view import RequestView

    with answers(f"describe the tuning job {name}"):
        job = sagemaker.describe_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)
    state = job_state(job["HyperParameterTuningJobStatus"])
    return JobStatus(
        name=name,
        state=state,
        phase=_counted(job.get("TrainingJobStatusCounters", {})) if not state.is_final else state.value,
        failure_reason=job.get("FailureReason"),
        output=RequestView(job).output_uri,
        seconds=seconds_of(job),
        explanation=_best(job.get("BestTrainingJob")) or _nothing_yet(state),
    )


def stop_tuning_job(sagemaker: Any, name: str) -> None:
    """Ask a tuning job to stop, and with it its training jobs."""
    with answers(f"stop the tuning job {name}"):
        sagemaker.stop_hyper_parameter_tuning_job(HyperParameterTuningJobName=name)


def _counted(counters: Mapping[str, int]) -> str:
    parts = [f"{counters[name]} {words}" for name, words in _COUNTERS if counters.get(name)]
    return f"Tuning ({', '.join(parts)})" if parts else "Tuning"


def _best(job: Mapping[str, Any] | None) -> str | None:
    if not job:
        return None
    metric = job.get("FinalHyperParameterTuningJobObjectiveMetric", {})
    value = f", {metric['MetricName']} {metric['Value']:g}" if "Value" in metric else ""
    tuned = ", ".join(f"{name}={value}" for name, value in job.get("TunedHyperParameters", {}).items())
    return f"best: {job['TrainingJobName']}{value}" + (f" ({tuned})" if tuned else "")


def _nothing_yet(state: JobState) -> str | None:
    return None if state.is_final else "no training job has reported the objective yet"
