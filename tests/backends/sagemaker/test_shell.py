"""The commands that lead to a shell in a container, by what DescribeTrainingJob says of the job."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.backends.sagemaker.description import status_of

SESSION = "aws ssm start-session --region eu-west-1 --target sagemaker-training-job:digits-1_algo-1"
UPDATE = (
    "aws sagemaker update-training-job --region eu-west-1 --training-job-name digits-1 "
    "--remote-debug-config EnableRemoteDebug=true"
)
ON = {"RemoteDebugConfig": {"EnableRemoteDebug": True}}


def shell(phase: str = "Training", state: str = "InProgress", **more: Any) -> tuple[str, ...]:
    return status_of(
        {
            "TrainingJobName": "digits-1",
            "TrainingJobArn": "arn:aws:sagemaker:eu-west-1:111122223333:training-job/digits-1",
            "TrainingJobStatus": state,
            "SecondaryStatus": phase,
            "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
            **more,
        }
    ).shell


def test_a_job_that_lets_a_shell_in_needs_one_command() -> None:
    assert shell(**ON) == (SESSION,)


def test_a_job_that_was_created_without_it_is_updated_first() -> None:
    assert shell() == (UPDATE, SESSION)
    assert shell("Downloading") == (UPDATE, SESSION)


@pytest.mark.parametrize(
    ("phase", "state", "more"),
    [
        ("Starting", "InProgress", {}),
        ("Uploading", "InProgress", {}),
        ("Completed", "Completed", {}),
        ("Training", "InProgress", {"EnableNetworkIsolation": True}),
    ],
)
def test_there_is_no_way_into_what_does_not_run_or_is_isolated(
    phase: str, state: str, more: dict[str, Any]
) -> None:
    assert shell(phase, state, **ON, **more) == ()
