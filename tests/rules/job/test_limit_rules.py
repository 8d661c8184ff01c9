"""What a job may use up: its time, the waiting for spot hosts, and its money."""

from __future__ import annotations

import pytest

P4D, P5, UNPRICED = "ml.p4d.24xlarge", "ml.p5.48xlarge", "ml.p2.8xlarge"
PLAN = {"training_plan": "arn:aws:sagemaker:us-east-1:111122223333:training-plan/x"}


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
    ("resources", "limits", "found"),
    [
        pytest.param({"instance_type": P5}, {"max_usd": 500}, None, id="a price is known"),
        pytest.param({"instance_type": UNPRICED}, {"max_usd": 500}, "error", id="none is known"),
        pytest.param(
            {"instance_type": UNPRICED}, {"max_usd": 500, "usd_per_hour": 8}, None, id="the file gives one"
        ),
        pytest.param(
            {"instance_type": P5, "instance_types": [UNPRICED]},
            {"max_usd": 500, "max_retries": 1},
            "error",
            id="none is known of a further type",
        ),
        pytest.param({"instance_type": P5, "capacity": PLAN}, {"max_usd": 500}, "error", id="paid already"),
        pytest.param({"instance_type": P5}, {"usd_per_hour": 8}, "info", id="a price that is not needed"),
        pytest.param({"instance_type": UNPRICED}, {"usd_per_hour": 8}, None, id="a price without a budget"),
        pytest.param({"instance_type": P5}, {"max_usd": 10}, "warning", id="gone before the script starts"),
        pytest.param(
            {"instance_type": P5}, {"max_usd": 10, "max_runtime": "5m"}, None, id="ended by its time first"
        ),
    ],
)
def test_a_budget_can_be_kept(severity_of, resources: dict, limits: dict, found: str | None) -> None:
    assert severity_of("SPEC003", region="us-east-1", resources=resources, limits=limits) == found


def test_a_run_on_this_machine_has_no_price(judge) -> None:
    assert judge("SPEC003", here=True, resources={"instance_type": UNPRICED}, limits={"max_usd": 5}) == []
