"""Whether a job gets SageMaker Debugger: decided once, for the request and for the rules."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.failure_modes import debugger
from launcher.failure_modes.model import FailureMode
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.checkpoints import PlannedCheckpoints


@dataclass(frozen=True, slots=True)
class PlannedDebugger:
    """Whether the request turns Debugger on; `conflict` is what would go wrong then, None for nothing.

    Without a conflict Debugger is off where nobody asked for it, and in tuning jobs, whose API does not
    take it.
    """

    on: bool = False
    conflict: FailureMode | None = None


def planned_debugger(job: JobSpec, checkpoints: PlannedCheckpoints | None) -> PlannedDebugger:
    """Turn Debugger on where the job asks for it and it does no harm beside these checkpoints."""
    conflict = _conflict(job, by_service=checkpoints is not None and checkpoints.by_service)
    return PlannedDebugger(job.debugger and conflict is None and job.tuning is None, conflict)


def _conflict(job: JobSpec, *, by_service: bool) -> FailureMode | None:
    """SageMaker developer guide, distributed-troubleshooting-data-parallel and -model-parallel.

    `by_service` says whether SageMaker itself copies the checkpoints to S3.
    """
    match job.distribution.strategy:
        case Strategy.SMP:
            return debugger.WITH_MODEL_PARALLEL
        case Strategy.SMDDP if by_service:
            return debugger.WITH_SMDDP_AND_CHECKPOINTS
        case _:
            return None
