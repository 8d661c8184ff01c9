"""Moments as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_in_words(seconds: float) -> str:
    """Seconds since the epoch, such as `2026-08-20 11:30:44 UTC`."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "an unknown time"
