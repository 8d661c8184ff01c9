"""A tuning job's state, as the service tells it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from launcher.backends.interface import JobState, UnknownJob
from launcher.backends.sagemaker.backend import SageMakerBackend

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

ARN = "arn:aws:sagemaker:us-west-2:111122223333:hyper-parameter-tuning-job/search"
CREATED = datetime(2026, 8, 20, 12, tzinfo=UTC)
ANSWER = CASES["answer"]


@pytest.fixture
def sagemaker() -> Any:
    return boto3.client(
        "sagemaker", region_name="us-west-2", aws_access_key_id="a", aws_secret_access_key="b"
    )


def not_found(stub: Stubber, operation: str) -> None:
    stub.add_client_error(operation, "ValidationException", "Requested resource not found.", 400)


def test_a_tuning_job_tells_its_counters_and_its_best_job(sagemaker: Any) -> None:
    with Stubber(sagemaker) as stub:
        not_found(stub, "describe_training_job")
        stub.add_response("describe_hyper_parameter_tuning_job", ANSWER)
        backend = SageMakerBackend(sagemaker, None, None)
        status = backend.describe("search")
        assert status.state is JobState.IN_PROGRESS
        assert status.phase == "Tuning (2 running, 3 completed, 1 failed)"
        assert status.explanation == "best: search-002, accuracy 0.93 (lr=0.01)"
        assert backend.read_logs("search", {}).lines == []
        stub.add_response("stop_hyper_parameter_tuning_job", {})
        backend.stop("search")
        ended = {**ANSWER, "HyperParameterTuningJobStatus": "Stopped"}
        stub.add_response("describe_hyper_parameter_tuning_job", ended)
        assert backend.describe("search").state is JobState.STOPPED
        stub.assert_no_pending_responses()


def test_a_name_that_is_neither_is_unknown(sagemaker: Any) -> None:
    with Stubber(sagemaker) as stub:
        not_found(stub, "describe_training_job")
        not_found(stub, "describe_hyper_parameter_tuning_job")
        with pytest.raises(UnknownJob, match="no training job search in us-west-2"):
            SageMakerBackend(sagemaker, None, None).describe("search")


@pytest.mark.parametrize(
    ("code", "message"),
    [("ResourceNotFound", "Requested resource not found."), ("AccessDeniedException", "not authorized")],
    ids=["by who has not looked at it", "by who may stop training jobs by their tags"],
)
def test_a_tuning_job_is_stopped(sagemaker: Any, code: str, message: str) -> None:
    with Stubber(sagemaker) as stub:
        stub.add_client_error("stop_training_job", code, message, 400)
        not_found(stub, "describe_training_job")
        stub.add_response("describe_hyper_parameter_tuning_job", ANSWER)
        stub.add_response("stop_hyper_parameter_tuning_job", {})
        SageMakerBackend(sagemaker, None, None).stop("search")
        stub.assert_no_pending_responses()


def test_a_name_that_no_job_can_have_is_unknown(sagemaker: Any) -> None:
    message = (
        "1 validation error detected: Value 'no_name' at '{}' failed to satisfy constraint: Member must "
        "satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){{0,62}}"
    )
    with Stubber(sagemaker) as stub:
        for operation, key in (
            ("describe_training_job", "trainingJobName"),
            ("describe_hyper_parameter_tuning_job", "hyperParameterTuningJobName"),
        ):
            stub.add_client_error(operation, "ValidationException", message.format(key), 400)
        with pytest.raises(UnknownJob, match="no training job no_name"):
            SageMakerBackend(sagemaker, None, None).describe("no_name")
