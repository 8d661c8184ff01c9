"""What a plan decides beside its request: whether a job may have Debugger."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.failure_modes import debugger
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import (
    REGIONS_WITHOUT_DEBUGGER,
    PlannedCheckpoints,
    PlannedDebugger,
    plan_checkpoints,
    plan_debugger,
)

CHECKPOINT = {"s3_uri": "s3://bucket/runs"}
REGION = "us-west-2"
TWO_HOSTS = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}


def job(strategy: str, asked: bool = True, **changes: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "g",
            "code": {"entry_point": "train.py"},
            "framework": {"version": "2.0.1"},
            "resources": {"instance_type": "ml.p4d.24xlarge"},
            "distribution": {"strategy": strategy},
            "debugger": asked,
            **changes,
        }
    )


@pytest.mark.parametrize(
    ("strategy", "changes", "code"),
    [
        ("smddp", {}, None),
        ("smddp", {"checkpoint": CHECKPOINT}, "DBG001"),
        ("smddp", {"cluster": "dev"}, "DBG001"),
        ("smddp", {"checkpoint": {**CHECKPOINT, "sync": "slipway"}}, None),
        ("smddp", {"checkpoint": {"lustre": "/checkpoints"}, "cluster": "dev"}, None),
        ("smp", {}, "DBG002"),
        ("smp", {"checkpoint": CHECKPOINT}, "DBG002"),
        ("torchrun", {}, None),
        ("torchrun", {"checkpoint": CHECKPOINT}, "DBG001"),
        ("torchrun", {"checkpoint": {**CHECKPOINT, "sync": "slipway"}}, None),
        ("mpi", {"checkpoint": CHECKPOINT}, "DBG001"),
        ("torch_xla", {"checkpoint": CHECKPOINT}, "DBG001"),
        ("none", {"checkpoint": CHECKPOINT}, None),
        ("none", {"checkpoint": CHECKPOINT, "resources": TWO_HOSTS}, "DBG001"),
        ("none", {"resources": TWO_HOSTS}, None),
    ],
)
def test_what_debugger_would_break(strategy: str, changes: dict[str, Any], code: str | None) -> None:
    planned = decided(job(strategy, **changes))
    assert (planned.conflict.code if planned.conflict else None) == code
    assert planned.on is (code is None)


def test_a_region_without_debugger_has_it_off() -> None:
    assert decided(job("none"), "me-central-1").conflict is debugger.NOT_OFFERED
    assert not decided(job("none"), "me-central-1").on
    assert decided(job("none"), "eu-west-1").on


def test_the_regions_without_debugger_are_those_of_the_sdk() -> None:
    fw_utils = pytest.importorskip("sagemaker.core.fw_utils", reason="the SDK is not installed")
    assert set(fw_utils.DEBUGGER_UNSUPPORTED_REGIONS) == REGIONS_WITHOUT_DEBUGGER


def test_debugger_is_never_on_unless_it_is_asked_for() -> None:
    assert not decided(job("torchrun", asked=False)).on


def test_a_tuning_job_has_no_debugger() -> None:
    tuning = {
        "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
        "ranges": {"lr": {"min": 0.1, "max": 0.2}},
        "max_jobs": 20,
    }
    assert decided(job("torchrun", tuning=tuning)) == PlannedDebugger(on=False, conflict=None)


def test_checkpoints_that_the_plan_knows_of_count() -> None:
    by_service = PlannedCheckpoints("/opt/ml/checkpoints", "s3://bucket/runs/g-1", by_service=True)
    assert plan_debugger(job("smddp"), by_service, REGION).conflict is not None
    assert plan_debugger(job("smddp", checkpoint=CHECKPOINT), None, REGION).conflict is None


def decided(spec: JobSpec, region: str = REGION) -> PlannedDebugger:
    return plan_debugger(spec, plan_checkpoints(spec, None, "g-1"), region)
