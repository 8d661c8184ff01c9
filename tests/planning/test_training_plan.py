"""What a plan decides beside its request: Debugger, and which plans are the same launch."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.jobs.specification import JobSpec
from launcher.planning.finished_request import without_cluster_tag
from launcher.planning.training_plan import (
    REGIONS_WITHOUT_DEBUGGER,
    PlannedCheckpoints,
    TrainingPlan,
    fingerprint,
    plan_debugger,
)
from tests.planning.plan_cases import JOB, make_plan

TEAMS = ({"team": "vision"}, {"team": "speech"})


def test_the_regions_without_debugger_are_those_of_the_sdk() -> None:
    fw_utils = pytest.importorskip("sagemaker.core.fw_utils", reason="the SDK is not installed")
    assert set(fw_utils.DEBUGGER_UNSUPPORTED_REGIONS) == REGIONS_WITHOUT_DEBUGGER


def test_checkpoints_that_the_plan_knows_of_count() -> None:
    by_service = PlannedCheckpoints("/opt/ml/checkpoints", "s3://bucket/runs/g-1", by_service=True)
    distribution, region = {"strategy": "smddp"}, "us-west-2"
    asked = {**JOB, "distribution": distribution, "debugger": True}
    assert plan_debugger(JobSpec.model_validate(asked), by_service, region).conflict is not None
    kept = JobSpec.model_validate({**asked, "checkpoint": {"s3_uri": "s3://bucket/runs"}})
    assert plan_debugger(kept, None, region).conflict is None


def test_a_launch_is_the_same_with_the_tag_and_without(manifest: dict[str, Any]) -> None:
    """Else a run that an earlier launcher began would begin a second job."""
    teams = [make_plan({"manifest": {}, "tags": tags}, manifest) for tags in ({}, *TEAMS)]
    for plan in teams:
        before = TrainingPlan(plan.job, plan.region, without_cluster_tag(plan.request or {}), None, ())
        assert "slipway:cluster" not in str(before.request)
        assert fingerprint(plan) == fingerprint(before)
    assert len({fingerprint(plan) for plan in teams}) == 3
