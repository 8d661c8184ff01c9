"""No secret of the job or the session is in what a failing submission says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.backends.interface import BackendError, Progress
from launcher.backends.sagemaker import creation
from launcher.failure_modes.model import AwsRefusal, Refusal
from tests.backends.sagemaker.conftest import Emulated
from tests.emulator.faults import EMPTY, Fault, inject
from tests.session.submission.launches import entries, launch

SECRETS = {"environment": "planted-in-environment", "hyperparameters": "planted-in-hyperparameters"}


@pytest.mark.parametrize(
    "message",
    [
        "1 validation error detected: Value '{MY_SETTING=planted-in-environment}' at 'environment' failed",
        "hyperparameters hold planted-in-hyperparameters, which looks like a credential",
        "The canonical string should have been x-amz-security-token:planted-token signed",
    ],
)
@pytest.mark.parametrize("operation", ["CreateTrainingJob", "DescribeTrainingJob"])
def test_no_secret_is_in_what_a_failing_submission_says(
    aws: Emulated,
    message: str,
    operation: str,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", logger="launcher")
    fault = Fault("told", 400, "ValidationException", message)
    if operation == "DescribeTrainingJob":
        inject(aws.clients["sagemaker"], "CreateTrainingJob", EMPTY)
    inject(aws.clients["sagemaker"], operation, fault)
    plan = aws.plan_of(
        environment={"MY_SETTING": SECRETS["environment"]},
        hyperparameters={"key": SECRETS["hyperparameters"]},
    )
    progress: list[Progress] = []
    with pytest.raises(Refusal) as error:
        launch(aws.backend, plan, progress.append)
    printed = capfd.readouterr()
    everything = [str(error.value), error.value.remedy, repr(progress), printed.out, printed.err, caplog.text]
    everything += [entry.read_text() for entry in entries()]
    assert "planted" not in "".join(everything)
    assert "***" in str(error.value)


def test_a_request_without_its_job_file_hides_all_its_values(aws: Emulated) -> None:
    inject(
        aws.clients["sagemaker"],
        "CreateTrainingJob",
        Fault("told", 400, "ValidationException", "planted-value"),
    )
    plan = aws.plan_of(environment={"MY_SETTING": "planted-value"})
    with pytest.raises(AwsRefusal) as error:
        creation.create_once(aws.clients["sagemaker"], plan.request or {}, plan.operation)
    assert "planted" not in str(error.value)


def test_a_value_of_the_wrong_type_is_named_and_not_shown(aws: Emulated) -> None:
    plan = aws.plan_of()
    broken = replace(plan, request={**plan.request, "Environment": {"MY_SETTING": ["planted-value"]}})
    with pytest.raises(BackendError, match=r"Environment\.MY_SETTING") as error:
        launch(aws.backend, broken)
    assert "planted" not in str(error.value)
    assert error.value.__cause__ is None
