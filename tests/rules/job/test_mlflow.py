"""MLflow in another region than the job."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("region", "found"), [("us-west-2", None), ("eu-west-1", "warning")])
def test_mlflow_of_another_region_is_warned_of(severity_of, region: str, found: str | None) -> None:
    arn = f"arn:aws:sagemaker:{region}:111122223333:mlflow-app/team"
    assert severity_of("SPEC003", mlflow={"arn": arn}) == found
