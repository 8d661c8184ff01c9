"""Seconds as people read them: exactly, at a glance, or in a sentence."""

from __future__ import annotations


def exact_duration(seconds: int) -> str:
    """A duration as people write it in a job file, nothing rounded: 30m, 24h, 1h30m."""
    units = (("h", seconds // 3600), ("m", seconds % 3600 // 60), ("s", seconds % 60))
    return "".join(f"{count}{unit}" for unit, count in units if count) or "0s"


def elapsed_time(seconds: float) -> str:
    """How long something has taken, to two units and aligned in columns: 42s, 3m07s, 2h05m."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


def duration_in_words(seconds: float) -> str:
    """A duration in a sentence, rounded down: less than a minute, 1 minute, 45 minutes, 3 hours."""
    minutes = int(seconds // 60)
    if minutes < 1:
        return "less than a minute"
    if minutes < 120:
        return f"{minutes} minute{'s' if minutes > 1 else ''}"
    return f"{minutes // 60} hours"
