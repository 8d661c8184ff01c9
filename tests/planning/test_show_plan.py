"""A plan as people see it: what it installs, what two runs differ in, and two requests side by side."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.job_sections import Code
from launcher.planning.request_view import RequestView
from launcher.planning.show_plan import (
    fields_of_job,
    fields_of_plan,
    job_uses_compiler,
    plan_uses_compiler,
    request_diff,
    requirements_for_boot,
)
from launcher.source.tree import read_source
from tests.planning.comparison import differences, plan_of


@pytest.mark.parametrize(
    ("fields", "packed", "installed"),
    [
        pytest.param({}, True, "requirements.txt", id="the default that is there"),
        pytest.param({}, False, None, id="the default that is not there"),
        pytest.param({"requirements": "none"}, True, None, id="nothing is wanted"),
        pytest.param({"requirements": "gpu.txt"}, False, "gpu.txt", id="named"),
        pytest.param(
            {"source_dir": "s3://bucket/source.tar.gz"}, False, "requirements.txt", id="not seen here"
        ),
        pytest.param(
            {"source_dir": "s3://bucket/x.tar.gz", "requirements": "none"}, False, None, id="not seen, none"
        ),
    ],
)
def test_the_boot_is_told_what_the_plan_knows_or_cannot_know(
    tmp_path: Path, fields: dict[str, str], packed: bool, installed: str | None
) -> None:
    if packed:
        (tmp_path / "requirements.txt").write_text("einops\n")
    code = Code(entry_point="train.py", **fields)  # type: ignore[arg-type]
    source = read_source(tmp_path, "train.py", (), code.requirements_file)
    assert requirements_for_boot(code, source) == installed


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
    return set(differences(fields_of_plan(first), fields_of_plan(second)))


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
    assert differences(fields_of_job(RequestView(first)), fields_of_job(RequestView(second))) == {}
    other = copy.deepcopy(second)
    other["HyperParameters"]["lr"] = "0.2"
    found = differences(fields_of_job(RequestView(first)), fields_of_job(RequestView(other)))
    assert list(found) == ["hyperparameters.lr"]


@pytest.mark.parametrize(("job", "compiles"), [(JOB, False), (COMPILED, True)])
def test_the_compiler_is_seen_in_plans_and_in_requests(job: dict[str, Any], compiles: bool) -> None:
    plan = plan_of(job)
    assert plan.request is not None
    assert plan_uses_compiler(plan) is compiles
    assert job_uses_compiler(RequestView(plan.request)) is compiles


ONE = {
    "TrainingJobName": "a-1",
    "CheckpointConfig": {"S3Uri": "s3://b/a-1"},
    "HyperParameters": {"lr": "0.1"},
}


def test_two_plans_of_one_job_do_not_differ() -> None:
    other = {**ONE, "TrainingJobName": "a-2", "CheckpointConfig": {"S3Uri": "s3://b/a-2"}}
    assert request_diff(ONE, other) == []


def test_a_changed_value_is_shown_before_and_after() -> None:
    lines = request_diff(ONE, {**ONE, "HyperParameters": {"lr": "0.2"}})
    assert '-    "lr": "0.1"' in lines
    assert '+    "lr": "0.2"' in lines
