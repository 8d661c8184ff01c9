"""`watchdog`: when the boot asks the ranks of a job where they are."""

from __future__ import annotations

from pydantic import Field

from launcher.failure_modes import sources
from launcher.failure_modes.figures import Figure
from launcher.jobs.values import Duration, Part

FIGURES = (
    Figure("60", "seconds without a step that are no stall by themselves", sources.JOB_FILE),
    Figure("5", "times the longest pause between two steps is one", sources.JOB_FILE),
)

FIRST_STEP_SECONDS = 1800
"""Compilation and the first read of a large data set come before the first step, and take their time."""


class WatchdogLimits(Part):
    """When a job stands still: no rank of it makes a step for so long."""

    stall: Duration | None = Field(
        None, ge=1, description="Without a step; default: 60 s, or 5 times the longest pause so far."
    )
    first_step: Duration = Field(FIRST_STEP_SECONDS, ge=1, description="Without a first step.")
