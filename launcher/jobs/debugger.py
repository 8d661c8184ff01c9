"""Whether a job may have SageMaker Debugger: what the plan sends and the rules say, decided once."""

from __future__ import annotations

from launcher.failure_modes import debugger
from launcher.failure_modes.model import FailureMode
from launcher.jobs.specification import JobSpec, Strategy


def checkpoints_by_service(job: JobSpec) -> bool:
    """Whether SageMaker itself moves the job's checkpoints to S3.

    They are on by default where there is a cluster, but for those of a tuning job, and `sync: slipway`
    moves them in the container.
    """
    if job.checkpoint is not None:
        return job.checkpoint.sync == "sagemaker" and job.checkpoint.lustre is None
    return job.cluster is not None and job.tuning is None


def debugger_conflict(job: JobSpec, checkpoints: bool | None = None) -> FailureMode | None:
    """What would go wrong were Debugger on in this job, or None where nothing would.

    `checkpoints` says whether the request has a checkpoint configuration, where that is known already.
    Source: SageMaker developer guide, distributed-troubleshooting-data-parallel and -model-parallel.
    """
    by_service = checkpoints_by_service(job) if checkpoints is None else checkpoints
    match job.distribution.strategy:
        case Strategy.SMP:
            return debugger.WITH_MODEL_PARALLEL
        case Strategy.SMDDP if by_service:
            return debugger.WITH_SMDDP_AND_CHECKPOINTS
        case _:
            return None


def debugger_allowed(job: JobSpec, checkpoints: bool | None = None) -> bool:
    """Whether Debugger is asked for and does no harm: the request turns it on only then."""
    return job.debugger and debugger_conflict(job, checkpoints) is None
