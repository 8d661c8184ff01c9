"""`debug`: ways into a job that runs."""

from __future__ import annotations

from pydantic import Field

from launcher.jobs.values import Part


class Debug(Part):
    """Ways into a job that runs, on AWS."""

    remote: bool = Field(
        False, description="Let a shell into the containers, through AWS Systems Manager (`launch status`)."
    )
