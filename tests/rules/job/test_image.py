"""Images of the user's own in a tuning job: DIST002."""

from __future__ import annotations

import pytest

from tests.rules.job.tuning_job import TUNING

OWN_IMAGE = {"framework": None, "image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/mine:1"}


@pytest.mark.parametrize(("strategy", "found"), [("torchrun", "warning"), ("none", "warning"), ("mpi", None)])
def test_an_image_of_ones_own_needs_the_toolkit_where_the_boot_would_do_without(
    severity_of, strategy: str, found: str | None
) -> None:
    job = {"distribution": {"strategy": strategy}, **OWN_IMAGE}
    assert severity_of("DIST002", tuning=TUNING, **job) == found
    assert severity_of("DIST002", **job) is None
