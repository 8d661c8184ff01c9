"""`watchdog`: when the boot asks the ranks of a job where they are."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, WrapValidator

from launcher.documents.validation import refusal
from launcher.failure_modes import sources
from launcher.failure_modes.model import Figure
from launcher.jobs.values import Duration, Part

FIGURES = (
    Figure("60", "seconds without a step that are no stall by themselves", sources.JOB_FILE),
    Figure("5", "times the longest pause between two steps is one", sources.JOB_FILE),
)

STALL_SECONDS, PAUSES = 60, 5
"""Without limits of its own: nobody makes a step for so long, and for so many times the longest pause."""

FIRST_STEP_SECONDS = 1800
"""Compilation and the first read of a large data set come before the first step, and take their time."""


class WatchdogLimits(Part):
    """When a job stands still: no rank of it makes a step for so long."""

    stall: Duration | None = Field(
        None, ge=1, description="Without a step; default: 60 s, or 5 times the longest pause so far."
    )
    first_step: Duration = Field(FIRST_STEP_SECONDS, ge=1, description="Without a first step.")


def _off_or_limits(value: Any, _: Any) -> Any:
    """One error for one mistake, at its own field: a plain union complains of each of its members."""
    if value == "off" or isinstance(value, WatchdogLimits):
        return value
    if not isinstance(value, dict):
        raise refusal(
            f"{value!r} is neither off nor a mapping of limits",
            remedy="Write `watchdog: off`, or limits such as `watchdog: {stall: 10m}`; leave it out for the "
            "defaults.",
        )
    return WatchdogLimits.model_validate(value)


Watchdog = Annotated[WatchdogLimits | Literal["off"], WrapValidator(_off_or_limits)]
"""What the field takes: its limits, or off."""
