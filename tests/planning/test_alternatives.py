"""Further instance types, each judged as the job's own."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.failure_modes.model import Severity
from launcher.planning.training_plan import TrainingPlan
from tests.planning.comparison import plan_of

JOB: dict[str, Any] = {
    "name": "g",
    "code": {"entry_point": "train.py"},
    "framework": {"version": "2.0.1"},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "smddp"},
}


def plan(*instance_types: str, **changes: Any) -> TrainingPlan:
    resources = {**JOB["resources"], "instance_types": list(instance_types)}
    return plan_of({**JOB, "resources": resources, **changes})


def errors(found: TrainingPlan) -> list[tuple[str, str | None]]:
    return [(each.code, each.subject) for each in found.findings if each.severity is Severity.ERROR]


def test_types_that_run_the_job_change_nothing_in_the_request() -> None:
    with_others, alone = plan("ml.p4de.24xlarge", "ml.p3dn.24xlarge"), plan()
    assert not with_others.refused
    assert with_others.request == alone.request


@pytest.mark.parametrize(
    ("instance_type", "changes", "code"),
    [
        pytest.param("ml.g5.48xlarge", {}, "DIST002", id="the strategy is not there"),
        pytest.param(
            "ml.g5.xlarge",
            {"distribution": {"strategy": "torchrun", "processes_per_host": 8}},
            "DIST003",
            id="fewer devices than processes",
        ),
        pytest.param(
            "ml.trn1.32xlarge",
            {"distribution": {"strategy": "torchrun"}, "framework": {"version": "2.10.0"}},
            "IMG001",
            id="no image for its devices",
        ),
    ],
)
def test_a_type_that_cannot_run_the_job_is_an_error_at_its_place(
    instance_type: str, changes: dict[str, Any], code: str
) -> None:
    found = plan("ml.p4de.24xlarge", instance_type, **changes)
    assert found.refused
    assert found.request is not None
    assert errors(found) == [(code, "resources.instance_types.1")]
    (finding,) = [each for each in found.findings if each.code == code]
    assert instance_type in finding.message


def test_what_is_wrong_on_every_type_is_said_once() -> None:
    changes = {"framework": {"version": "2.8.0"}}
    assert errors(plan("ml.p4de.24xlarge", **changes)) == [("DIST002", "framework.version")]
