"""What two runs are held against each other by."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from launcher.planning.request_view import RequestView
from launcher.planning.run_facts import (
    planned_fields,
    planned_with_compiler,
    submitted_fields,
    submitted_with_compiler,
)
from tests.planning.comparison import differences, plan_of

JOB: dict[str, Any] = {
    "name": "g",
    "code": {"entry_point": "train.py"},
    "framework": {"name": "pytorch", "version": "2.8.0"},
    "hyperparameters": {"lr": 0.1},
    "resources": {"instance_type": "ml.p4d.24xlarge", "instance_count": 2},
    "distribution": {"strategy": "torchrun"},
    "inputs": {"train": "s3://bucket/train"},
}
COMPILED: dict[str, Any] = {
    **JOB,
    "framework": {"version": "1.12"},
    "resources": {"instance_type": "ml.p3.16xlarge", "instance_count": 2},
    "distribution": {"strategy": "torch_xla"},
}


def changed(job: dict[str, Any], other: dict[str, Any]) -> set[str]:
    first, second = plan_of(job), plan_of(other, unique="1unique")
    return set(differences(planned_fields(first), planned_fields(second)))


def test_two_plans_of_one_job_differ_in_nothing() -> None:
    assert changed(JOB, JOB) == set()


def test_what_follows_from_the_job_file_stands_below_the_request() -> None:
    found = changed(JOB, {**JOB, "framework": {"name": "pytorch", "version": "2.7.1"}})
    assert "framework.version" in found
    assert {name for name in found if not name.startswith(("framework.", "request."))} == set()
    assert "request.image" in found


# The images' toolkit is told the job's unique name, and finds the code below it.
@pytest.mark.parametrize("job", [JOB, COMPILED])
def test_two_jobs_of_one_request_differ_in_nothing_but_what_was_changed(job: dict[str, Any]) -> None:
    first, second = (plan_of(job, unique).request for unique in ("0unique", "1unique"))
    assert first is not None and second is not None
    assert differences(submitted_fields(RequestView(first)), submitted_fields(RequestView(second))) == {}
    other = copy.deepcopy(second)
    other["HyperParameters"]["lr"] = "0.2"
    found = differences(submitted_fields(RequestView(first)), submitted_fields(RequestView(other)))
    assert list(found) == ["hyperparameters.lr"]


@pytest.mark.parametrize(("job", "compiles"), [(JOB, False), (COMPILED, True)])
def test_the_compiler_is_seen_in_plans_and_in_requests(job: dict[str, Any], compiles: bool) -> None:
    plan = plan_of(job)
    assert plan.request is not None
    assert planned_with_compiler(plan) is compiles
    assert submitted_with_compiler(RequestView(plan.request)) is compiles
