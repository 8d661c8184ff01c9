"""`network`: where the hosts are placed, and what they may reach."""

from __future__ import annotations

from pydantic import Field

from launcher.jobs.values import Part


class Network(Part):
    """Where the hosts are placed, the cluster's network unless given, and what the containers may reach."""

    subnets: list[str] = Field([], max_length=16, description="Subnet ids.")
    security_group_ids: list[str] = Field([], max_length=5, description="Security group ids.")
    isolation: bool = Field(
        False, description="The containers reach each other and nothing else, no AWS service either."
    )
    encryption: bool = Field(
        False, description="What the hosts send each other is encrypted, which slows training down."
    )
