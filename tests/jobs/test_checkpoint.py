"""Checkpoints on the file system, beside the other ways."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load import load_job


@pytest.mark.parametrize(
    ("checkpoint", "subject"),
    [
        pytest.param({"s3_uri": "s3://mine/c"}, "checkpoint", id="two places"),
        pytest.param({"sync": "slipway"}, "checkpoint.sync", id="nothing to move"),
        pytest.param({"local_path": "/opt/ml/mine"}, "checkpoint.local_path", id="mounted elsewhere"),
        pytest.param({"resume_from": "digits-1"}, "checkpoint.resume_from", id="nobody copies"),
    ],
)
def test_what_contradicts_lustre_is_refused_at_its_place(
    write_job: Callable[..., Path], checkpoint: dict[str, Any], subject: str
) -> None:
    loaded = load_job(write_job(checkpoint={"lustre": "/c", **checkpoint}))
    (found,) = loaded.findings
    assert (found.code, found.subject) == ("SPEC003", subject)
    assert found.location == loaded.location(*subject.split("."))


def test_the_channel_of_the_checkpoints_is_taken(write_job: Callable[..., Path]) -> None:
    inputs = {"checkpoints": "s3://mine/old"}
    (found,) = load_job(write_job(checkpoint={"lustre": "/c"}, inputs=inputs)).findings
    assert (found.code, found.subject) == ("SPEC003", "checkpoint.lustre")
    assert "mounted as the channel `checkpoints`" in found.message


def test_without_lustre_a_channel_may_be_called_so(write_job: Callable[..., Path]) -> None:
    inputs = {"checkpoints": {"lustre": "/c", "access": "rw"}}
    assert load_job(write_job(checkpoint={"s3_uri": "s3://mine/c"}, inputs=inputs)).findings == ()
