"""`network`: where the hosts are placed."""

from __future__ import annotations

from pydantic import Field

from launcher.jobs.values import Part


class Network(Part):
    """Where the hosts are placed; the cluster's network unless given."""

    subnets: list[str] = Field([], max_length=16, description="Subnet ids.")
    security_group_ids: list[str] = Field([], max_length=5, description="Security group ids.")
