"""Limits that contradict each other, and settings without effect: SPEC003, SPEC004."""

from __future__ import annotations

import pytest

P4D, M5 = "ml.p4d.24xlarge", "ml.m5.xlarge"


@pytest.mark.parametrize(
    ("capacity", "limits", "found"),
    [
        pytest.param("spot", {"max_runtime": "2h", "max_wait": 7199}, "error", id="a second less"),
        pytest.param("spot", {"max_runtime": "2h", "max_wait": "2h"}, None, id="equal"),
        pytest.param("spot", {"max_runtime": "2h"}, None, id="by default twice as long"),
        pytest.param("spot", {"max_wait": "1h"}, "error", id="less than the default of 24 h"),
        pytest.param("on-demand", {"max_runtime": "2h", "max_wait": "1h"}, None, id="not sent without spot"),
    ],
)
def test_waiting_includes_running(severity_of, capacity: str, limits: dict, found: str | None) -> None:
    job = {"resources": {"instance_type": P4D, "capacity": capacity}, "limits": limits}
    assert severity_of("SPEC004", **job) == found


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param({"capacity": "spot", "keep_alive": "30m"}, "error", id="a warm pool of spot hosts"),
        pytest.param({"capacity": "spot"}, None, id="spot alone"),
        pytest.param({"keep_alive": "30m"}, None, id="warm pool alone"),
    ],
)
def test_warm_pools_are_not_spot(severity_of, resources: dict, found: str | None) -> None:
    assert severity_of("SPEC004", resources={"instance_type": P4D, **resources}) == found


def test_a_waiting_time_without_spot_is_an_information(severity_of) -> None:
    assert severity_of("SPEC003", limits={"max_wait": "2d"}) == "info"


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param({"instance_type": P4D, "volume_size_gb": 500}, "info", id="beside disks of its own"),
        pytest.param({"instance_type": P4D}, None, id="the default is nobody's wish"),
        pytest.param({"instance_type": M5, "volume_size_gb": 500}, None, id="the only disk there is"),
    ],
)
def test_a_volume_without_effect_is_an_information(severity_of, resources: dict, found: str | None) -> None:
    assert severity_of("SPEC003", resources=resources) == found


@pytest.mark.parametrize(
    ("checkpoint", "found"),
    [
        pytest.param({"lustre": "/c"}, None, id="the file system keeps them"),
        pytest.param({"s3_uri": "s3://mine/c", "sync": "slipway"}, "warning", id="the script's own work"),
        pytest.param({"s3_uri": "s3://mine/c"}, None, id="the service's work"),
    ],
)
def test_ways_of_checkpointing(severity_of, checkpoint: dict, found: str | None) -> None:
    assert severity_of("SPEC003", checkpoint=checkpoint) == found


@pytest.mark.parametrize(
    ("types", "retries", "found"),
    [(["ml.p4de.24xlarge"], 0, "info"), (["ml.p4de.24xlarge"], 2, None), ([], 0, None)],
)
def test_further_types_without_retries_are_an_information(
    severity_of, types: list[str], retries: int, found: str | None
) -> None:
    resources = {"instance_type": P4D, "instance_types": types}
    assert severity_of("SPEC003", resources=resources, limits={"max_retries": retries}) == found
