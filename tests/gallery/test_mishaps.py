"""What docs/mishaps.md says of each mishap is what `launch examples/mishaps/job.yaml --local` prints."""

from __future__ import annotations

import pytest

from tests.docs.mishaps import KINDS, promised, same
from tests.gallery.conftest import RunExample

HOLDING_UP = 20
"""Seconds of the process group's timeout, after which a rank that only sleeps ends the job."""


@pytest.mark.gallery
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_printed_is_what_the_page_says(run_example: RunExample, kind: str) -> None:
    run = run_example("mishaps", **{"hyperparameters.kind": kind, "hyperparameters.timeout": HOLDING_UP})
    for line in promised(kind):
        assert any(same(line, printed) for printed in run.log.splitlines()), run.log
