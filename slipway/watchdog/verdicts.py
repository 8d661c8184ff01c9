"""What follows from a verdict, and how hosts send one."""

from __future__ import annotations

import dataclasses
from typing import Any

from slipway.watchdog.judgement import StallVerdict
from slipway.watchdog.views import UserLine


def ending(
    verdict: StallVerdict | None, before: StallVerdict | None, lasted: float, unknown_timeout: float
) -> bool:
    """Whether the job is to end: a certain verdict that a second look confirms; one that may still pass once
    it has lasted, in seconds, as long as the group would let its ranks wait."""
    if verdict is None or before is None:
        return False
    if verdict.certain:
        return before.same_as == verdict.same_as
    return lasted >= (verdict.timeout or unknown_timeout)


def verdict_to_json(verdict: StallVerdict | None) -> dict[str, Any] | None:
    """A verdict as JSON holds it."""
    return None if verdict is None else dataclasses.asdict(verdict)


def verdict_from_json(value: dict[str, Any] | None) -> StallVerdict | None:
    """The verdict again."""
    if value is None:
        return None
    lines = tuple(UserLine(*each) for each in value["lines"])
    return StallVerdict(**{**value, "ranks": tuple(value["ranks"]), "lines": lines})
