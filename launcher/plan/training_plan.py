"""The training plan: everything that a backend needs to run a job, and what was found on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.failure_modes.model import Finding, any_blocks

Request = dict[str, Any]
"""A CreateTrainingJob request, with the key names of the API."""


@dataclass(frozen=True, slots=True)
class SourcePackage:
    """What must be uploaded before the request is sent.

    `source_dir` is the absolute folder of the user's code, `entry_point` the script below it, and
    `s3_uri` the prefix of the request's `code` channel, where `source.tar.gz` and `slipway.pyz` go.
    """

    source_dir: Path
    entry_point: str
    s3_uri: str


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """A job made concrete.

    `job` is the resolved job in the job file's own keys, `region` where it goes, `request` what is
    sent as it is (None where errors kept it from being built), `placeholders` the names of the values
    that stand in for what only a cluster or an account knows; a submission to AWS refuses while there
    are any.
    """

    job: dict[str, Any]
    region: str | None
    request: Request | None
    package: SourcePackage | None
    findings: tuple[Finding, ...]
    placeholders: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the findings forbid running it."""
        return self.request is None or any_blocks(self.findings)
