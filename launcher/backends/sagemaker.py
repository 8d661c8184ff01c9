"""Managed training on Amazon SageMaker."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher.account.aws import aws_errors
from launcher.backends.interface import BackendError, Cursor, JobState, JobStatus, LogBatch, LogLine
from launcher.backends.packaging import BOOT_NAME, build_boot, build_source
from launcher.planning.training_plan import SourcePackage, TrainingPlan

LOG_GROUP = "/aws/sagemaker/TrainingJobs"


class SageMakerBackend:
    """Submits plans as training jobs; the clients are boto3's for sagemaker, logs and s3."""

    name = "sagemaker"

    def __init__(self, sagemaker: Any, logs: Any, s3: Any) -> None:
        self._sagemaker = sagemaker
        self._logs = logs
        self._s3 = s3

    def submit(self, plan: TrainingPlan) -> str:
        """Upload the code, then create the training job; nothing is created if the upload fails."""
        if plan.request is None or plan.package is None:
            raise BackendError("the plan holds no request.", "Mend the findings of `launch check` first.")
        if plan.placeholders:
            missing = ", ".join(plan.placeholders)
            raise BackendError(
                f"the plan still holds placeholders for: {missing}.",
                "Give them in the job file, or name a provisioned `cluster`.",
            )
        if plan.job.get("checkpoint", {}).get("resume_from"):
            raise BackendError(
                "checkpoint.resume_from cannot be carried out on AWS by this version.",
                "Leave it out, or resume a local run with --local.",
            )
        self._upload(plan.package)
        job_name = str(plan.request["TrainingJobName"])
        with aws_errors(f"create the training job {job_name}"):
            answer = self._sagemaker.create_training_job(**plan.request)
        if not answer.get("TrainingJobArn"):
            raise BackendError(
                f"AWS answered without confirming the training job {job_name}.",
                f"Look whether it exists: aws sagemaker describe-training-job --training-job-name {job_name}",
            )
        return job_name

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
        """What all hosts printed since the cursor, from one log stream per host."""
        lines: list[LogLine] = []
        tokens = dict(cursor)
        for stream in self._streams(job_name):
            host = stream.split("/")[1].rsplit("-", 1)[0]
            while True:
                token = {"nextToken": tokens[stream]} if stream in tokens else {}
                with aws_errors(f"read the logs of {host}"):
                    page = self._logs.get_log_events(
                        logGroupName=LOG_GROUP, logStreamName=stream, startFromHead=True, **token
                    )
                lines += [LogLine(e["timestamp"] / 1000, host, e["message"]) for e in page["events"]]
                # The service marks the end of a stream by giving the same token again.
                ended = tokens.get(stream) == page["nextForwardToken"]
                tokens[stream] = page["nextForwardToken"]
                if ended or not page["events"]:
                    break
        return LogBatch(sorted(lines, key=lambda line: line.time), tokens)

    def stop(self, job_name: str) -> None:
        """StopTrainingJob: SIGTERM to the containers, and 120 seconds for them to end."""
        with aws_errors(f"stop the training job {job_name}"):
            self._sagemaker.stop_training_job(TrainingJobName=job_name)

    def _streams(self, job_name: str) -> list[str]:
        with aws_errors("list the job's log streams"):
            try:
                pages = self._logs.get_paginator("describe_log_streams").paginate(
                    logGroupName=LOG_GROUP, logStreamNamePrefix=f"{job_name}/"
                )
                return [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
            except self._logs.exceptions.ResourceNotFoundException:
                return []  # The group is made with the account's first training job.

    def _upload(self, package: SourcePackage) -> None:
        bucket, _, prefix = package.s3_uri.removeprefix("s3://").partition("/")
        with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
            files = [Path(folder, package.archive)]
            build_source(package.source_dir, files[0])
            if package.with_boot:
                files.append(Path(folder, BOOT_NAME))
                build_boot(files[1])
            for file in files:
                with aws_errors(f"upload the code to {package.s3_uri}"):
                    self._s3.upload_file(str(file), bucket, f"{prefix}/{file.name}".lstrip("/"))


def _seconds(job: dict[str, Any]) -> float | None:
    started = job.get("TrainingStartTime") or job.get("CreationTime")
    if started is None:
        return None
    ended = job.get("TrainingEndTime") or datetime.now(UTC)
    return max(0.0, float((ended - started).total_seconds()))
