"""Tuning jobs: shared checkpoints (CKPT001), Debugger, and images of the user's own (DIST002)."""

from __future__ import annotations

from typing import Any

import pytest

TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 0.1, "max": 0.2}},
    "max_jobs": 20,
}
OWN_IMAGE = {"framework": None, "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"checkpoint": {"s3_uri": "s3://mine/c"}}, "error", id="one prefix for all"),
        pytest.param({"checkpoint": {"lustre": "/c"}}, "error", id="one directory for all"),
        pytest.param({"cluster": "dev"}, "info", id="the cluster's default is off"),
        pytest.param({}, None, id="no checkpoints"),
    ],
)
def test_training_jobs_of_a_tuning_job_share_no_checkpoints(
    severity_of, job: dict[str, Any], found: str | None
) -> None:
    assert severity_of("CKPT001", tuning=TUNING, **job) == found
    assert severity_of("CKPT001", **job) is None


def test_how_many_would_share_them_is_told(judge) -> None:
    (finding,) = judge("CKPT001", tuning=TUNING, checkpoint={"s3_uri": "s3://mine/c"})
    assert "all 20 training jobs would have one prefix" in finding.message
    assert finding.subject == "checkpoint"


def test_spot_without_checkpoints_is_told_also_on_a_cluster(severity_of) -> None:
    job = {"cluster": "dev", "resources": {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}}
    assert severity_of("CKPT006", tuning=TUNING, **job) == "warning"
    assert severity_of("CKPT006", **job) is None


def test_debugger_is_not_followed(severity_of) -> None:
    assert severity_of("SPEC003", tuning=TUNING, debugger=True) == "warning"
    assert severity_of("SPEC003", debugger=True) is None


@pytest.mark.parametrize(("strategy", "found"), [("torchrun", "warning"), ("none", "warning"), ("mpi", None)])
def test_an_image_of_ones_own_needs_the_toolkit_where_the_boot_would_do_without(
    severity_of, strategy: str, found: str | None
) -> None:
    job = {"distribution": {"strategy": strategy}, **OWN_IMAGE}
    assert severity_of("DIST002", tuning=TUNING, **job) == found
    assert severity_of("DIST002", **job) is None
