"""Who a job is: unique names, the cluster's tag, and the request of a job that goes on from an earlier one.

The tag is on every job of a cluster, on no other, and nothing that makes two launches differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from launcher.cluster.manifest import Cluster
from launcher.jobs.load_job import load_job
from launcher.jobs.specification import MAX_NAME_LENGTH
from launcher.planning import job_identity
from launcher.planning.job_identity import (
    build_resumed_request,
    fingerprint,
    make_resumed_name,
    without_cluster_tag,
)
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import source_of


def test_the_longest_base_makes_a_name_that_the_service_takes() -> None:
    name = job_identity.make_job_name("x" * MAX_NAME_LENGTH, job_identity.make_unique_part())
    assert len(name) == 63
    assert re.fullmatch(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}", name)


def test_names_sort_by_time() -> None:
    with mock.patch.object(job_identity.time, "time_ns", side_effect=[10**15, 10**18, 10**18 + 10**6]):
        parts = [job_identity.make_unique_part() for _ in range(3)]
    assert parts == sorted(parts)


@pytest.mark.parametrize("times", [1000])
def test_parts_of_one_moment_differ(times: int) -> None:
    with mock.patch.object(job_identity.time, "time_ns", return_value=10**18):
        assert len({job_identity.make_unique_part() for _ in range(times)}) == times


PlanOf = Callable[..., TrainingPlan]

TUNING: dict[str, Any] = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 1e-5, "max": 0.01}},
    "max_jobs": 2,
}


@pytest.fixture
def plan_of(write_job: Callable[..., Path], manifest: dict[str, Any]) -> PlanOf:
    def plan(*, on_cluster: bool = True, **changes: Any) -> TrainingPlan:
        loaded = load_job(write_job(**changes))
        assert loaded.spec is not None, loaded.findings
        return plan_job(
            loaded.spec,
            Cluster.model_validate(manifest) if on_cluster else None,
            unique="0unique",
            source=source_of(loaded.spec, loaded.file.parent),
            session_region="us-west-2",
            today=date(2026, 11, 22),
        )

    return plan


def tags(plan: TrainingPlan) -> dict[str, str]:
    assert plan.view is not None
    return plan.view.tags


def refusals(plan: TrainingPlan) -> list[tuple[str, str | None]]:
    return [(found.code, found.subject) for found in plan.findings if found.blocks]


@pytest.mark.parametrize("kind", [{}, {"tuning": TUNING}], ids=["training job", "tuning job"])
def test_a_job_on_a_cluster_carries_its_name(plan_of: PlanOf, kind: dict[str, Any]) -> None:
    assert tags(plan_of(tags={"team": "vision"}, **kind)) == {"team": "vision", "slipway:cluster": "dev"}
    assert tags(plan_of(**kind)) == {"slipway:cluster": "dev"}


def test_a_job_without_a_cluster_has_the_users_tags_only(plan_of: PlanOf) -> None:
    assert tags(plan_of(on_cluster=False, tags={"team": "vision"})) == {"team": "vision"}
    assert "Tags" not in (plan_of(on_cluster=False).request or {})


def test_a_user_may_say_the_same(plan_of: PlanOf) -> None:
    plan = plan_of(tags={"slipway:cluster": "dev"})

    assert (refusals(plan), tags(plan)) == ([], {"slipway:cluster": "dev"})


def test_a_user_may_not_say_otherwise(plan_of: PlanOf) -> None:
    plan = plan_of(tags={"slipway:cluster": "production"})

    assert refusals(plan) == [("SPEC003", "tags.slipway:cluster")]
    assert tags(plan) == {"slipway:cluster": "dev"}


def test_a_job_without_a_cluster_may_not_say_that_it_has_one(plan_of: PlanOf) -> None:
    (found,) = (
        each for each in plan_of(on_cluster=False, tags={"slipway:cluster": "dev"}).findings if each.blocks
    )

    assert found.message == (
        "the tag slipway:cluster says 'dev', but the job has no cluster; policies go by this tag"
    )


def test_nothing_is_said_while_the_cluster_was_not_read(plan_of: PlanOf) -> None:
    assert refusals(plan_of(on_cluster=False, cluster="dev", tags={"slipway:cluster": "dev"})) == []


def test_a_launch_is_the_same_with_the_tag_and_without(plan_of: PlanOf) -> None:
    """Else a run that an earlier launcher began would begin a second job."""
    for given in ({}, {"team": "vision"}):
        plan = plan_of(tags=given)
        before = TrainingPlan(plan.job, plan.region, without_cluster_tag(plan.request or {}), None, ())

        assert "slipway:cluster" not in str(before.request)
        assert fingerprint(plan) == fingerprint(before)
    assert fingerprint(plan_of(tags={"team": "vision"})) != fingerprint(plan_of(tags={"team": "speech"}))


def test_a_job_that_resumes_another_is_on_the_same_cluster(plan_of: PlanOf) -> None:
    resumed = build_resumed_request(plan_of().request or {}, "digits-0unique", "digits-1unique")

    assert {"Key": "slipway:cluster", "Value": "dev"} in resumed["Tags"]


UNIQUE = "0123456789abcdefg"
REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits-1",
    "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1", "LocalPath": "/opt/ml/checkpoints"},
    "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://mine/digits-1", "NCCL_DEBUG": "WARN"},
    "Tags": [
        {"Key": "team", "Value": "vision"},
        {"Key": "slipway:resumed-from", "Value": "digits-0"},
        {"Key": "aws:created-by", "Value": "somebody"},
    ],
}


def test_only_name_prefixes_and_tags_change() -> None:
    assert build_resumed_request(REQUEST, "digits-1", "digits-2") == {
        "TrainingJobName": "digits-2",
        "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-2", "LocalPath": "/opt/ml/checkpoints"},
        "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://mine/digits-2", "NCCL_DEBUG": "WARN"},
        "Tags": [
            {"Key": "team", "Value": "vision"},
            {"Key": "slipway:resumed-from", "Value": "digits-1"},
        ],
    }
    assert REQUEST["TrainingJobName"] == "digits-1"


def test_a_prefix_that_is_not_the_jobs_own_gets_a_part_of_the_new_jobs() -> None:
    request = {"CheckpointConfig": {"S3Uri": "s3://checkpoints/shared/"}}
    moved = build_resumed_request(request, "digits-1", "digits-2")
    assert moved["CheckpointConfig"]["S3Uri"] == "s3://checkpoints/shared/digits-2"


@pytest.mark.parametrize(
    ("earlier", "base"),
    [
        (f"digits-{'0' * 17}", "digits"),
        ("somebody-elses-job", "somebody-elses-job"),
        ("x" * 44 + "-" + "y" * 18, "x" * 44),
        ("z" * 63, "z" * 45),
    ],
    ids=["one of ours", "another's", "cut at a hyphen", "cut"],
)
def test_the_new_name_has_another_unique_part_and_room_for_it(earlier: str, base: str) -> None:
    name = make_resumed_name(earlier, UNIQUE)
    assert name == f"{base}-{UNIQUE}"
    assert len(name) <= 63


def test_the_service_chooses_the_type_of_a_resumed_job_anew() -> None:
    asked = {"InstancePreferences": [{"InstanceType": "ml.p5.48xlarge"}], "InstanceCount": 2}
    described = {**asked, "SelectedInstanceType": "ml.p5.48xlarge", "SelectedInstanceCount": 2}
    again = build_resumed_request({"ResourceConfig": described}, "digits-1", "digits-2")
    assert again["ResourceConfig"] == asked
