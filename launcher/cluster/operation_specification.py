"""What runs a cluster day by day in its file: the queue that a team shares, and what is watched."""

from __future__ import annotations

from datetime import date
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator

from launcher.cluster.section import Section, refuse
from launcher.failure_modes.model import Figure, Source

LOG_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180),
    *(365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""For how long CloudWatch Logs keeps a group (API reference, PutRetentionPolicy)."""

_RETENTION = Source("botocore service model logs: PutRetentionPolicy", date(2026, 11, 22))
FIGURES = (
    Figure("0.5", "a weight factor, as an example", None),
    *(Figure(str(days), "days that CloudWatch Logs can keep logs", _RETENTION) for days in LOG_DAYS),
)


class QueueSpec(Section):
    """A queue of AWS Batch in front of SageMaker, through which a team shares the capacity."""

    max_instances: int | None = Field(
        default=None,
        ge=1,
        description="Hosts that all jobs of the queue may use at the same time; by default those planned.",
    )
    shares: dict[
        Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9]{1,254}\*?$")],
        Annotated[float, Field(ge=0.0001, le=999.9999)],
    ] = Field(
        default_factory=dict,
        description="Weight factors by share identifier (a team, or a prefix that ends in *); a lower one "
        "gets more: 0.5 gets twice the hosts of 1. Without shares, first in is first out.",
    )

    @field_validator("shares")
    @classmethod
    def _do_not_overlap(cls, shares: dict[str, float]) -> dict[str, float]:
        for name in shares:
            for prefix in shares:
                if name != prefix and prefix.endswith("*") and name.startswith(prefix[:-1]):
                    # AWS Batch API reference, ShareAttributes.
                    refuse(
                        f"{name!r} is one of {prefix!r}; share identifiers may not overlap",
                        remedy="Name each team in one share only.",
                        below=(name,),
                    )
        return shares


class ObservabilitySpec(Section):
    """What is watched, and who is notified."""

    email: str | None = Field(
        default=None,
        pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$",
        description="Address that is asked to subscribe to the topic.",
    )
    monthly_budget_usd: int | None = Field(
        default=None, ge=1, description="Warn when the region's cost of a month comes near to this."
    )
    idle_gpu_minutes: int = Field(
        default=30, ge=5, le=1440, description="Warn when a host's GPUs do nothing for so long."
    )
    free_capacity_percent: int = Field(
        default=10, ge=1, le=99, description="Warn when less of the file system is free."
    )
    job_log_days: int | None = Field(
        default=None,
        description="Days for which the logs of training jobs are kept: 1, 3, 5, 7, 14, 30, 60, 90, 120, "
        "150, 180, 365 or another number that CloudWatch Logs has. They are those of all jobs of the account "
        "in the region, as SageMaker has one log group there. Left as it is when left out.",
    )

    @field_validator("job_log_days")
    @classmethod
    def _is_a_retention(cls, days: int | None) -> int | None:
        if days is not None and days not in LOG_DAYS:
            refuse(
                f"CloudWatch Logs keeps nothing for {days} days",
                remedy=f"Use one of {', '.join(map(str, LOG_DAYS))}.",
            )
        return days
