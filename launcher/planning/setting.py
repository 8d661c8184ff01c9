"""One environment variable that Slipway gives a job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable of the job: why it has this value, and who says so.

    `overridden_by` names the user's own variable where there is one: that stands, this is not sent.
    """

    name: str
    value: str
    reason: str
    source: str
    overridden_by: str | None = None
