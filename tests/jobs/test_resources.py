"""The further instance types that a retry may try."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load import load_job

P4D = "ml.p4d.24xlarge"


def test_further_types_keep_their_order(write_job: Callable[..., Path]) -> None:
    types = ["ml.p5.48xlarge", "ml.p4de.24xlarge"]
    spec = load_job(write_job(resources={"instance_type": P4D, "instance_types": types})).spec
    assert spec.resources.instance_types == types


@pytest.mark.parametrize(
    ("types", "changes", "subject", "said"),
    [
        ([P4D], {}, "resources.instance_types.0", "tried already, as `instance_type`"),
        (["ml.p5.48xlarge"] * 2, {}, "resources.instance_types.1", "as number 1 of `instance_types`"),
        (["p5.48xlarge"], {}, "resources.instance_types.0", "does not have the form"),
        (
            ["ml.p5.48xlarge"],
            {"capacity": {"training_plan": "arn:aws:sagemaker:us-west-2:1:training-plan/p"}},
            "resources.instance_types",
            "a training plan holds hosts of one type",
        ),
    ],
)
def test_what_no_retry_could_try_is_refused_at_its_place(
    write_job: Callable[..., Path], types: list[str], changes: dict[str, Any], subject: str, said: str
) -> None:
    resources = {"instance_type": P4D, "instance_types": types, **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert (found.code, found.subject) == ("SPEC003", subject)
    assert said in found.message
    assert found.location.line > 1


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "there is nothing to choose from"),
        ({"instance_types": ["ml.p5.48xlarge"], "capacity": "spot"}, "on demand alone"),
    ],
)
def test_a_choice_that_the_service_does_not_make_is_refused(
    write_job: Callable[..., Path], changes: dict[str, Any], said: str
) -> None:
    resources = {"instance_type": P4D, "instance_choice": "service", **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert (found.code, found.subject) == ("SPEC003", "resources.instance_choice")
    assert said in found.message


def test_several_instance_groups_are_refused_for_what_they_are(write_job: Callable[..., Path]) -> None:
    groups = [{"instance_type": P4D, "instance_count": 2, "name": "trainers"}]
    (found,) = load_job(write_job(resources={"instance_groups": groups})).findings
    assert (found.code, found.subject) == ("SPEC003", "resources.instance_groups")
    assert "heterogeneous" in found.message


@pytest.mark.parametrize(
    ("changes", "subject", "said"),
    [
        (
            {"placement": {"together": [{"instance_count": 2}, {"instance_count": 1}]}},
            "resources.placement.together",
            "3 hosts are to be placed, and the job has 2",
        ),
        (
            {"placement": {}, "instance_types": [P4D], "instance_choice": "service"},
            "resources.placement",
            "where the service chooses the instance type",
        ),
        ({"placement": {"together": [{"instance_count": 0}]}}, None, "0 is not valid"),
    ],
)
def test_hosts_that_cannot_be_placed_are_refused(
    write_job: Callable[..., Path], changes: dict[str, Any], subject: str | None, said: str
) -> None:
    resources = {"instance_type": "ml.p6e-gb200.36xlarge", "instance_count": 2, **changes}
    (found,) = load_job(write_job(resources=resources)).findings
    assert found.code == "SPEC003"
    assert subject in (None, found.subject)
    assert said in found.message
