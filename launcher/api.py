"""The launcher for people in notebooks: plan a job file, launch it, get the SDK's own resource back."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.aws.clients import Clients
from launcher.aws.session import session_region
from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import Refusal
from launcher.planning.training_plan import TrainingPlan
from launcher.session.launching import Launch
from launcher.session.preparation import JobSource, prepare, read_job
from launcher.session.run_id import run_id_of


class LaunchRefusedError(Refusal):
    """The job was not launched; `findings` say why, the errors among them first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        errors = [finding for finding in findings if finding.blocks]
        reasons = "; ".join(f"{finding.code} {finding.message}" for finding in errors)
        super().__init__(f"the job was not launched: {reasons}.", " ".join(item.remedy for item in errors))


def plan(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    overrides: Mapping[str, str] | None = None,
    allow_env: Sequence[str] | None = None,
) -> TrainingPlan:
    """The judged plan of a job file, made without a call to AWS.

    `overrides` maps dotted fields to YAML texts, as `--set` does; `allow_env` names the only variables that
    `${NAME}` may stand for, as `--allow-env` does. The findings say `${NAME}` where a value came from one;
    `job` and `request` hold the values, as they are sent. Raises Refusal for a file that cannot be opened.
    """
    loaded = read_job(_source(job_file, cluster, overrides, allow_env))
    with loaded.substitutions.refusals():
        return prepare(loaded, session_region=session_region())


def launch(
    job_file: str | Path,
    *,
    cluster: str | None = None,
    overrides: Mapping[str, str] | None = None,
    run_id: str | None = None,
    allow_env: Sequence[str] | None = None,
) -> Any:
    """Submit a job file to SageMaker once, and return the SDK's resource for it.

    With a `run_id` a second launch of the same job in the same run, from whatever machine, returns the
    first one's; in CI it is that run's own by default, and "" is none.

    A TrainingJob, or a HyperParameterTuningJob where the file has `tuning`; it waits, refreshes and streams
    logs as the SDK documents it (`sagemaker.core.resources`). `overrides` and `allow_env` are as in `plan`.
    Raises LaunchRefusedError with the findings that forbid the launch, AwsRefusal where AWS refuses.
    """
    loaded = read_job(_source(job_file, cluster, overrides, allow_env))
    launching = Launch(loaded, Clients(), session_region(), run_id=run_id_of(run_id, os.environ))
    with loaded.substitutions.refusals():
        made = launching.plan()
        if made.refused:
            raise LaunchRefusedError(made.findings)
        name = launching.submission(made).start.once(made).name
    # A second to import, and a gigabyte: only for those who asked for its resource.
    from sagemaker.core.resources import HyperParameterTuningJob, TrainingJob

    if made.operation == "CreateTrainingJob":
        return TrainingJob.get(training_job_name=name, region=made.region)
    return HyperParameterTuningJob.get(hyper_parameter_tuning_job_name=name, region=made.region)


def _source(
    job_file: str | Path,
    cluster: str | None,
    overrides: Mapping[str, str] | None,
    allow_env: Sequence[str] | None,
) -> JobSource:
    texts = [f"{field}={text}" for field, text in (overrides or {}).items()]
    return JobSource(Path(job_file), cluster, texts, allow_env)
