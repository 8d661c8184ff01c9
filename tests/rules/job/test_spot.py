"""Spot capacity: its limits, and warm pools beside it (SPEC003, SPEC004)."""

from __future__ import annotations

import pytest

P4D = "ml.p4d.24xlarge"


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
