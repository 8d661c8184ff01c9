"""`ladder` of the job file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.jobs.load import load_job

WriteJob = Callable[..., Path]


def test_what_is_told_keeps_the_text_of_the_file(write_job: WriteJob) -> None:
    file = write_job()
    file.write_text(
        f"{file.read_text()}ladder: {{few_steps: {{lr: 1e-3, on: true}}, synthetic: [--n, 1e3]}}\n"
    )
    spec = load_job(file).spec
    assert spec is not None
    assert spec.ladder is not None
    assert spec.ladder.few_steps == {"lr": "1e-3", "on": "true"}
    assert spec.ladder.synthetic == ["--n", "1e3"]


@pytest.mark.parametrize(
    ("ladder", "said"),
    [
        ({"few_steps": 5}, "write hyperparameters, such as {max_steps: 5}, or a list of arguments"),
        ({"synthetic": {}}, "write hyperparameters"),
        ({"synthetic": {"fake": None}}, "fake has no value"),
        ({"synthetic": {"fake": [1]}}, "must be a single value"),
        ({"steps": 5}, "unknown field `ladder.steps`"),
    ],
)
def test_what_cannot_be_told_is_refused(write_job: WriteJob, ladder: Any, said: str) -> None:
    loaded = load_job(write_job(ladder=ladder))
    assert loaded.spec is None
    assert any(said in found.message for found in loaded.findings)
