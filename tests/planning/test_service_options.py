"""What a job asks of the service besides hosts and data, in its request."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.planning.request_view import RequestView
from launcher.planning.service_options import on_aws_alone
from launcher.planning.training_plan import TrainingPlan
from tests.planning.comparison import plan_of

JOB: dict[str, Any] = {
    "name": "g",
    "role_arn": "arn:aws:iam::111122223333:role/r",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "2.8.0"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
    "output": {"s3_uri": "s3://team/output"},
}
TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 1e-5, "max": 0.1}},
    "max_jobs": 2,
}
ON: tuple[tuple[dict[str, Any], str, Any], ...] = (
    ({"resources": {"infra_check": True}}, "InfraCheckConfig", {"EnableInfraCheck": True}),
    ({"debug": {"remote": True}}, "RemoteDebugConfig", {"EnableRemoteDebug": True}),
)
"""What a job file switches on, and the member of the request that says so."""


def plan(**fields: Any) -> TrainingPlan:
    """The plan of a job with these fields, whose parts are added to those of the job."""
    merged = {
        key: {**JOB[key], **value} if key in JOB and isinstance(value, dict) else value
        for key, value in fields.items()
    }
    return plan_of({**JOB, **merged})


@pytest.mark.parametrize(("given", "member", "value"), ON, ids=[member for _, member, _ in ON])
def test_what_is_switched_on_is_one_member_of_the_request(
    given: dict[str, Any], member: str, value: Any
) -> None:
    made, without = plan(**given), plan()
    assert not made.refused, made.findings
    assert made.request == {**(without.request or {}), member: value}


def test_what_is_off_is_not_in_the_request() -> None:
    assert not {member for _, member, _ in ON} & set(plan().request or {})


@pytest.mark.parametrize(
    ("given", "subject"),
    [
        ({"resources": {"infra_check": True}}, "resources.infra_check"),
        ({"debug": {"remote": True}}, "debug.remote"),
    ],
)
def test_what_the_api_of_tuning_jobs_lacks_is_refused_there(given: dict[str, Any], subject: str) -> None:
    found = [each for each in plan(**given, tuning=TUNING).findings if each.blocks]
    assert [(each.code, each.subject) for each in found] == [("SPEC003", subject)]


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ({}, []),
        ({"InfraCheckConfig": {"EnableInfraCheck": True}}, ["resources.infra_check"]),
        ({"RemoteDebugConfig": {"EnableRemoteDebug": True}}, ["debug.remote"]),
        (
            {"ResourceConfig": {"InstancePreferences": [{"InstanceType": "a"}, {"InstanceType": "b"}]}},
            ["resources.instance_choice"],
        ),
    ],
)
def test_a_run_on_this_machine_has_none_of_it(request_: dict[str, Any], fields: list[str]) -> None:
    assert list(on_aws_alone(RequestView(request_))) == fields
