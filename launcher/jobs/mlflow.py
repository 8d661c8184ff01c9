"""`mlflow`: where SageMaker's managed MLflow keeps what the job tells of itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from launcher.jobs.values import Part

MlflowArn = Annotated[
    str,
    StringConstraints(
        max_length=2048, pattern=r"^arn:aws[a-z-]*:sagemaker:[a-z0-9-]*:[0-9]{12}:mlflow-[a-zA-Z-]*/.*$"
    ),
]
"""A tracking server or an app of SageMaker's MLflow (API reference, MlflowConfig)."""


class Mlflow(Part):
    """The MLflow of SageMaker to which the job belongs."""

    arn: MlflowArn = Field(description="ARN of the tracking server or the MLflow app.")
    experiment: str | None = Field(None, min_length=1, max_length=256, description="Its experiment.")
    run: str | None = Field(None, min_length=1, max_length=256, description="The name of its run.")

    @property
    def region(self) -> str:
        """The region in which it is."""
        return self.arn.split(":")[3]
