"""What SageMaker is called by other services of AWS."""

from __future__ import annotations

from typing import Final

SAGEMAKER_PRINCIPAL: Final = "sagemaker.amazonaws.com"
"""Whom an execution role trusts and is passed to (SageMaker developer guide, sagemaker-roles)."""

TRAINING_LOGS: Final = "/aws/sagemaker/TrainingJobs"
"""The log group of all training jobs, and the namespace of their metrics in CloudWatch (SageMaker
developer guide, logging-cloudwatch and training-metrics)."""
