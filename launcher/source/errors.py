"""Why a job's code cannot be packed."""

from __future__ import annotations

from launcher.failure_modes.refusal import Refusal


class SourceError(Refusal):
    """The user's code cannot be packed as it lies there; exit code 2."""
