"""Which quotas bind a job, before anybody is asked."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.account.questions.asking import Answers
from launcher.account.questions.quotas import QuotaQuestions
from launcher.planning.request_view import RequestView
from launcher.session.wanted import wanted_of

P4D = "ml.p4d.24xlarge"
PLAN = "arn:aws:sagemaker:us-west-2:123456789012:training-plan/plan-1"


@pytest.mark.parametrize(
    ("resources", "spot", "quotas"),
    [
        pytest.param({}, False, {f"{P4D} for training job usage"}, id="on demand"),
        pytest.param({}, True, {f"{P4D} for spot training job usage"}, id="spot"),
        pytest.param(
            {"KeepAlivePeriodInSeconds": 600},
            False,
            {f"{P4D} for training job usage", f"{P4D} for training warm pool usage"},
            id="with hosts that are kept",
        ),
        pytest.param({"TrainingPlanArn": PLAN}, False, set(), id="the capacity of a training plan"),
    ],
)
def test_a_job_is_bound_by_the_quotas_of_its_hosts(
    resources: dict[str, Any], spot: bool, quotas: set[str]
) -> None:
    request = {
        "TrainingJobName": "digits-1",
        "RoleArn": "arn:aws:iam::123456789012:role/training",
        "ResourceConfig": {"InstanceType": P4D, "InstanceCount": 2, **resources},
        "EnableManagedSpotTraining": spot,
    }
    asked = QuotaQuestions(wanted_of(RequestView(request), "us-west-2")).questions(Answers({}))
    assert {each.what.removeprefix("the quota ") for each in asked if "quota" in each.what} == quotas
