"""The backend of managed training jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from launcher.account.aws import aws_errors
from launcher.backends.interface import Cursor, JobState, JobStatus, LogBatch
from launcher.backends.sagemaker.logs import read_logs
from launcher.backends.sagemaker.submission import submit
from launcher.planning.training_plan import TrainingPlan


class SageMakerBackend:
    """Submits plans as training jobs; the clients are boto3's for sagemaker, logs and s3."""

    name = "sagemaker"

    def __init__(self, sagemaker: Any, logs: Any, s3: Any) -> None:
        self._sagemaker = sagemaker
        self._logs = logs
        self._s3 = s3

    def submit(self, plan: TrainingPlan) -> str:
        """Upload the code, then create the training job; nothing is created if the upload fails."""
        return submit(self._sagemaker, self._s3, plan)

    def describe(self, job_name: str) -> JobStatus:
        """The job's status by DescribeTrainingJob."""
        with aws_errors(f"describe the training job {job_name}"):
            job = self._sagemaker.describe_training_job(TrainingJobName=job_name)
        return JobStatus(
            name=job_name,
            state=JobState(job["TrainingJobStatus"]),
            phase=job.get("SecondaryStatus", job["TrainingJobStatus"]),
            failure_reason=job.get("FailureReason"),
            checkpoints=job.get("CheckpointConfig", {}).get("S3Uri"),
            output=job.get("ModelArtifacts", {}).get("S3ModelArtifacts"),
            seconds=_seconds(job),
        )

    def read_logs(self, job_name: str, cursor: Cursor) -> LogBatch:
        """What all hosts printed since the cursor."""
        return read_logs(self._logs, job_name, cursor)

    def stop(self, job_name: str) -> None:
        """StopTrainingJob: SIGTERM to the containers, and 120 seconds for them to end."""
        with aws_errors(f"stop the training job {job_name}"):
            self._sagemaker.stop_training_job(TrainingJobName=job_name)


def _seconds(job: dict[str, Any]) -> float | None:
    started = job.get("TrainingStartTime") or job.get("CreationTime")
    if started is None:
        return None
    ended = job.get("TrainingEndTime") or datetime.now(UTC)
    return max(0.0, float((ended - started).total_seconds()))
