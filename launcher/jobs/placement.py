"""`resources.placement`: on which UltraServers the hosts are placed."""

from __future__ import annotations

from pydantic import Field

from launcher.jobs.values import Part


class HostsTogether(Part):
    """So many hosts together on one UltraServer."""

    instance_count: int = Field(ge=1, description="How many hosts.")
    ultra_server: str | None = Field(
        None, min_length=1, max_length=256, description="The UltraServer's id; default: any."
    )


class UltraServerPlacement(Part):
    """How hosts are placed on UltraServers, which a training plan holds."""

    share: bool = Field(
        False, description="Whether other jobs may have hosts on the same UltraServers (EnableMultipleJobs)."
    )
    together: list[HostsTogether] = Field(
        [], max_length=10, description="Which numbers of hosts must be on one UltraServer."
    )
