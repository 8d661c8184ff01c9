"""Debugger beside the distributed libraries: DBG001, DBG002; in a tuning job: SPEC003."""

from __future__ import annotations

import pytest

from tests.rules.job.tuning_job import TUNING

S3 = {"s3_uri": "s3://mine/runs"}
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
            None,
            id="kept without the library",
        ),
    ],
)
def test_debugger_with_smddp(severity_of, job: dict, found: str | None) -> None:
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


def test_debugger_is_not_followed_in_a_tuning_job(severity_of) -> None:
    assert severity_of("SPEC003", tuning=TUNING, debugger=True) == "warning"
    assert severity_of("SPEC003", debugger=True) is None
