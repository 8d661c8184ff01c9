"""One environment variable that Slipway gives a job."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.failure_modes.model import Source


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable of the job: why it has this value, who says so, and when we last looked.

    What holds for some versions of the software alone says so in its reason.
    `overridden_by` names the user's own variable where there is one: that stands, this is not sent.
    """

    name: str
    value: str
    reason: str
    sources: tuple[Source, ...]
    overridden_by: str | None = None
