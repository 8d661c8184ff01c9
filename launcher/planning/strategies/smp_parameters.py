"""`distribution.options.parameters` of the model parallel library, read in one place."""

from __future__ import annotations

from typing import Any

from launcher.jobs.specification import JobSpec
from launcher.planning.strategies.options import OPTIONS

PARAMETERS = (*OPTIONS, "parameters")
"""Where the parameters stand in the job file."""

MP_PARAMETERS = "mp_parameters"
"""The hyperparameter by which they reach the script (the SageMaker SDK version 2 sends the same)."""


def smp_parameters(job: JobSpec) -> dict[str, Any]:
    """The parameters as they are given; none where something other than a mapping stands there.

    That is an error of its own, which the strategies find.
    """
    given = job.distribution.options.get("parameters")
    return given if isinstance(given, dict) else {}


def smp_degree(job: JobSpec, name: str, default: int = 1) -> int:
    """A parallel degree by its name; the default where it is missing or is not a whole number above 0."""
    value = smp_parameters(job).get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default
