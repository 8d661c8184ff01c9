"""From a plan to a training job: upload the code, then create the job, once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from launcher.account.aws import aws_errors
from launcher.backends.interface import BackendError
from launcher.backends.packaging import BOOT_NAME, build_boot, build_source
from launcher.planning.training_plan import SourcePackage, TrainingPlan


def submit(sagemaker: Any, s3: Any, plan: TrainingPlan) -> str:
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
    _upload(s3, plan.package)
    job_name = str(plan.request["TrainingJobName"])
    with aws_errors(f"create the training job {job_name}"):
        answer = sagemaker.create_training_job(**plan.request)
    if not answer.get("TrainingJobArn"):
        raise BackendError(
            f"AWS answered without confirming the training job {job_name}.",
            f"Look whether it exists: aws sagemaker describe-training-job --training-job-name {job_name}",
        )
    return job_name


def _upload(s3: Any, package: SourcePackage) -> None:
    bucket, _, prefix = package.s3_uri.removeprefix("s3://").partition("/")
    with tempfile.TemporaryDirectory(prefix="slipway-") as folder:
        files = [Path(folder, package.archive)]
        build_source(package.source_dir, files[0])
        if package.with_boot:
            files.append(Path(folder, BOOT_NAME))
            build_boot(files[1])
        for file in files:
            with aws_errors(f"upload the code to {package.s3_uri}"):
                s3.upload_file(str(file), bucket, f"{prefix}/{file.name}".lstrip("/"))
