"""Whether MLflow is where the job is: SPEC003."""

from __future__ import annotations

from collections.abc import Iterator

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.rules.job.subject import JobSubject


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def mlflow_is_in_the_jobs_region(subject: JobSubject) -> Iterator[Finding]:
    """A warning: nothing is documented of jobs that belong to the MLflow of another region."""
    mlflow, region = subject.job.mlflow, subject.plan.region
    if mlflow is None or "region" in subject.plan.placeholders or mlflow.region == region:
        return
    yield job_file.INVALID_VALUE.at(
        ("mlflow", "arn"),
        f"MLflow is in {mlflow.region} and the job in {region}: AWS does not document that a job may belong "
        "to the MLflow of another region, and may refuse it",
        remedy="Name a tracking server or an app of the job's region.",
        severity=Severity.WARNING,
    )
