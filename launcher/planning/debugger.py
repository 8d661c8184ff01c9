"""Whether a job gets SageMaker Debugger: decided once, for the request and for the rules."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.failure_modes import debugger
from launcher.failure_modes.model import FailureMode
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.checkpoints import PlannedCheckpoints

REGIONS_WITHOUT = frozenset(
    {
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "eu-central-2",
        "eu-south-2",
        "me-central-1",
        "us-gov-east-1",
        "us-iso-east-1",
        "us-isob-east-1",
    }
)
"""Regions without Debugger: DEBUGGER_UNSUPPORTED_REGIONS in sagemaker/core/fw_utils.py of the SageMaker SDK
(sagemaker 3.27.0, read on 2026-11-22). Version 2 of the SDK has the same ones: the list may be older than
what AWS offers, and regions that are newer than it are not in it."""


@dataclass(frozen=True, slots=True)
class PlannedDebugger:
    """Whether the request turns Debugger on; `conflict` is what would go wrong then, None for nothing.

    Without a conflict Debugger is off where nobody asked for it, and in tuning jobs, whose API does not
    take it.
    """

    on: bool = False
    conflict: FailureMode | None = None


def planned_debugger(job: JobSpec, checkpoints: PlannedCheckpoints | None, region: str) -> PlannedDebugger:
    """Turn Debugger on where the job asks for it, the region has it and it does no harm beside these
    checkpoints."""
    by_service = checkpoints is not None and checkpoints.by_service
    conflict = _conflict(job, by_service=by_service, region=region)
    return PlannedDebugger(job.debugger and conflict is None and job.tuning is None, conflict)


def _conflict(job: JobSpec, *, by_service: bool, region: str) -> FailureMode | None:
    """SageMaker developer guide, debugger-reference (what distributed training Debugger supports).

    `by_service` says whether SageMaker itself copies the checkpoints to S3. What counts as distributed is
    what counts for the SageMaker SDK version 2: any distribution, or several hosts.
    """
    strategy = job.distribution.strategy
    if strategy is Strategy.SMP:
        return debugger.WITH_MODEL_PARALLEL
    if by_service and (strategy is not Strategy.NONE or job.resources.instance_count > 1):
        return debugger.WITH_CHECKPOINTS
    if region in REGIONS_WITHOUT:
        return debugger.NOT_OFFERED
    return None
