"""Debugger beside the distributed libraries: DBG001 to DBG003; in a tuning job: SPEC003."""

from __future__ import annotations

import pytest

from tests.rules.job.tuning_job import TUNING

S3 = {"s3_uri": "s3://mine/runs"}
ONE_HOST = {"instance_type": "ml.p4d.24xlarge"}
TWO_HOSTS = {"instance_type": "ml.p4d.24xlarge", "instance_count": 2}
SLIPWAY = {**S3, "sync": "slipway"}


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({"checkpoint": S3}, "info", id="not asked for: off, and said"),
        pytest.param({"checkpoint": S3, "debugger": True}, "warning", id="asked for: off, with a warning"),
        pytest.param({"cluster": "dev", "debugger": True}, "warning", id="a cluster has checkpoints too"),
        pytest.param({"checkpoint": SLIPWAY, "debugger": True}, None, id="kept with the container's sync"),
        pytest.param({"debugger": True}, None, id="kept without checkpoints"),
        pytest.param(
            {"checkpoint": S3, "debugger": True, "distribution": {"strategy": "torchrun"}},
            "warning",
            id="off for every distribution",
        ),
        pytest.param(
            {"checkpoint": S3, "distribution": {"strategy": "torchrun"}},
            None,
            id="not worth a word where nobody asked for it",
        ),
        pytest.param(
            {
                "checkpoint": S3,
                "debugger": True,
                "distribution": {"strategy": "none"},
                "resources": TWO_HOSTS,
            },
            "warning",
            id="off on several hosts",
        ),
        pytest.param(
            {"checkpoint": S3, "debugger": True, "distribution": {"strategy": "none"}, "resources": ONE_HOST},
            None,
            id="kept by one process alone",
        ),
    ],
)
def test_debugger_with_checkpoints(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("DBG001", **{"distribution": {"strategy": "smddp"}, **job}) == found


@pytest.mark.parametrize(
    ("job", "found"),
    [
        pytest.param({}, "info", id="not asked for: off, and said"),
        pytest.param({"debugger": True}, "warning", id="asked for: off, with a warning"),
        pytest.param(
            {"debugger": True, "checkpoint": SLIPWAY}, "warning", id="no way of checkpointing helps"
        ),
        pytest.param({"debugger": True, "distribution": {"strategy": "torchrun"}}, None, id="no library"),
    ],
)
def test_debugger_with_smp(severity_of, job: dict, found: str | None) -> None:
    assert severity_of("DBG002", **{"distribution": {"strategy": "smp"}, **job}) == found


def test_who_turns_debugger_on_is_told_that_aws_has_closed_it(judge) -> None:
    (found,) = judge("DBG003", debugger=True)
    assert (found.severity, found.path) == ("info", ("debugger",))
    assert "2026-07-30" in found.message
    assert judge("DBG003") == []


@pytest.mark.parametrize("off_beside", [{"checkpoint": S3}, {"distribution": {"strategy": "smp"}}])
def test_what_is_off_anyway_needs_no_word_on_its_closing(severity_of, off_beside: dict) -> None:
    assert severity_of("DBG003", debugger=True, **off_beside) is None


def test_in_a_region_without_debugger_it_is_off_with_a_warning(judge) -> None:
    (found,) = judge("DBG003", debugger=True, region="me-central-1")
    assert found.severity == "warning"
    assert "me-central-1" in found.message
    assert judge("DBG003", region="me-central-1") == []


def test_debugger_is_not_followed_in_a_tuning_job(severity_of) -> None:
    assert severity_of("SPEC003", tuning=TUNING, debugger=True) == "warning"
    assert severity_of("SPEC003", debugger=True) is None
