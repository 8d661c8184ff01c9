"""Checkpoints of large models (CKPT002), of jobs that start again (CKPT006), and of tuning jobs (CKPT001)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.rules.job.tuning_job import TUNING

S3 = {"s3_uri": "s3://mine/runs"}
SPOT = {"instance_type": "ml.p4d.24xlarge", "capacity": "spot"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"model": {"parameters": 10e9}}, None, id="ten billion"),
        pytest.param({"model": {"parameters": 10e9 + 1}}, "warning", id="one more"),
        pytest.param({"model": {"parameters": 70e9}, "checkpoint": S3}, "warning", id="to S3"),
        pytest.param(
            {"model": {"parameters": 70e9}, "checkpoint": {"lustre": "/checkpoints"}}, None, id="to Lustre"
        ),
        pytest.param(
            {"model": {"parameters": 70e9}, "inputs": {"c": {"lustre": "/c", "access": "rw"}}},
            None,
            id="to a writable mount of Lustre",
        ),
        pytest.param(
            {"model": {"parameters": 70e9}, "inputs": {"c": {"lustre": "/c"}}}, "warning", id="read only"
        ),
        pytest.param({"checkpoint": S3}, None, id="size unknown"),
    ],
)
def test_large_models_want_lustre(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("CKPT002", **job) == found


def test_the_size_of_the_checkpoint_is_told(judge) -> None:
    (finding,) = judge("CKPT002", model={"parameters": 70e9})
    assert "70 billion parameters make a checkpoint of 840 to 1,120 GB" in finding.message


@pytest.mark.parametrize(
    ("job", "fields"),
    [
        pytest.param({"resources": SPOT}, ["resources.capacity"], id="spot"),
        pytest.param({"limits": {"max_retries": 1}}, ["limits.max_retries"], id="retries"),
        pytest.param({"limits": {"max_retries": 0}}, [], id="no retries"),
        pytest.param(
            {"resources": SPOT, "limits": {"max_retries": 3}},
            ["resources.capacity", "limits.max_retries"],
            id="both",
        ),
        pytest.param({"resources": SPOT, "checkpoint": S3}, [], id="spot with a checkpoint"),
        pytest.param({"resources": SPOT, "cluster": "dev"}, [], id="a cluster has checkpoints"),
        pytest.param(
            {"resources": SPOT, "inputs": {"c": {"lustre": "/c", "access": "rw"}}}, [], id="Lustre keeps them"
        ),
        pytest.param({}, [], id="nothing starts again"),
    ],
)
def test_what_starts_again_has_a_checkpoint(judge, job: dict, fields: list[str]) -> None:
    assert [finding.subject for finding in judge("CKPT006", **job)] == fields


@pytest.mark.parametrize(
    ("strategy", "options", "found"),
    [
        pytest.param("torchrun", {}, None, id="the boot makes it"),
        pytest.param("smp", {"version": 2}, None, id="the boot again"),
        pytest.param("smp", {"version": 1}, "warning", id="smp 1 has the toolkit"),
        pytest.param("mpi", {}, "warning", id="the toolkit makes none"),
    ],
)
def test_the_directory_on_lustre_is_made_by_somebody(
    severity_of, strategy: str, options: dict, found: str | None
) -> None:
    distribution = {"strategy": strategy, "options": options}
    assert severity_of("SPEC003", distribution=distribution, checkpoint={"lustre": "/c"}) == found
    assert severity_of("SPEC003", distribution=distribution, checkpoint=S3) is None


@pytest.mark.parametrize(
    ("checkpoint", "found"),
    [
        pytest.param({"lustre": "/c"}, None, id="the file system keeps them"),
        pytest.param({"s3_uri": "s3://mine/c", "sync": "slipway"}, None, id="the boot's work"),
        pytest.param({"s3_uri": "s3://mine/c"}, None, id="the service's work"),
    ],
)
def test_ways_of_checkpointing(severity_of, checkpoint: dict, found: str | None) -> None:
    assert severity_of("SPEC003", checkpoint=checkpoint) == found


def test_where_the_toolkit_starts_the_ranks_nobody_but_the_script_uploads(severity_of) -> None:
    checkpoint = {"s3_uri": "s3://mine/c", "sync": "slipway"}
    assert severity_of("SPEC003", distribution={"strategy": "smddp"}, checkpoint=checkpoint) == "warning"


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
