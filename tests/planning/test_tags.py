"""The cluster's tag: on every job of a cluster, on no other, and nothing that makes two launches differ."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from launcher.cluster.manifest import Cluster
from launcher.jobs.load import load_job
from launcher.planning.identity import fingerprint
from launcher.planning.planner import plan_job
from launcher.planning.resumption import resumed_request
from launcher.planning.tags import without_cluster_tag
from launcher.planning.training_plan import TrainingPlan
from launcher.session.preparation import source_of

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
    resumed = resumed_request(plan_of().request or {}, "digits-0unique", "digits-1unique")

    assert {"Key": "slipway:cluster", "Value": "dev"} in resumed["Tags"]
