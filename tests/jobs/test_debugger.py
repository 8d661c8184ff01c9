"""Whether a job may have Debugger."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.jobs.debugger import debugger_allowed, debugger_conflict
from launcher.jobs.specification import JobSpec

CHECKPOINT = {"s3_uri": "s3://bucket/runs"}


def job(strategy: str, debugger: bool = True, **changes: Any) -> JobSpec:
    return JobSpec.model_validate(
        {
            "name": "g",
            "code": {"entry_point": "train.py"},
            "framework": {"version": "2.0.1"},
            "resources": {"instance_type": "ml.p4d.24xlarge"},
            "distribution": {"strategy": strategy},
            "debugger": debugger,
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
        ("torchrun", {"checkpoint": CHECKPOINT}, None),
        ("torch_xla", {"checkpoint": CHECKPOINT}, None),
    ],
)
def test_what_debugger_would_break(strategy: str, changes: dict[str, Any], code: str | None) -> None:
    conflict = debugger_conflict(job(strategy, **changes))
    assert (conflict.code if conflict else None) == code
    assert debugger_allowed(job(strategy, **changes)) is (code is None)


def test_debugger_is_never_on_unless_it_is_asked_for() -> None:
    assert not debugger_allowed(job("torchrun", debugger=False))


def test_checkpoints_that_the_plan_knows_of_count() -> None:
    assert debugger_conflict(job("smddp"), checkpoints=True) is not None
    assert debugger_conflict(job("smddp", checkpoint=CHECKPOINT), checkpoints=False) is None
