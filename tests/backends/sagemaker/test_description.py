"""A job's state, as the API tells it."""

from __future__ import annotations

import pytest
from botocore.session import get_session

from launcher.backends.interface import JobState
from launcher.backends.sagemaker.description import job_state
from launcher.failure_modes.refusal import AwsRefusal

MODEL = get_session().get_service_model("sagemaker")
STATES = {*MODEL.shape_for("TrainingJobStatus").enum, *MODEL.shape_for("HyperParameterTuningJobStatus").enum}


@pytest.mark.parametrize("state", sorted(STATES))
def test_every_state_of_the_api_is_known(state: str) -> None:
    assert isinstance(job_state(state), JobState)


def test_another_one_is_told_as_aws_told_it() -> None:
    with pytest.raises(AwsRefusal, match=r"AWS says that a job is 'Odd'"):
        job_state("Odd")
