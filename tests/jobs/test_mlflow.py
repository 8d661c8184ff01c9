"""The MLflow that a job belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.jobs.load import load_job

SERVER = "arn:aws:sagemaker:eu-west-1:111122223333:mlflow-tracking-server/team"


@pytest.mark.parametrize("arn", [SERVER, "arn:aws-cn:sagemaker:cn-north-1:111122223333:mlflow-app/a-1"])
def test_an_arn_names_a_server_or_an_app_and_its_region(write_job: Callable[..., Path], arn: str) -> None:
    spec = load_job(write_job(mlflow={"arn": arn})).spec
    assert spec is not None and spec.mlflow is not None
    assert spec.mlflow.region == arn.split(":")[3]


@pytest.mark.parametrize("arn", ["team", "http://localhost:5000", SERVER.replace("mlflow-tracking", "x")])
def test_what_is_no_mlflow_of_sagemaker_is_refused_at_its_place(
    write_job: Callable[..., Path], arn: str
) -> None:
    (found,) = load_job(write_job(mlflow={"arn": arn})).findings
    assert (found.code, found.subject) == ("SPEC003", "mlflow.arn")
    assert found.location.line > 1
