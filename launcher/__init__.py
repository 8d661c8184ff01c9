"""Launch distributed training on Amazon SageMaker, and refuse what would stall there.

For notebooks and programs this is the whole public face, with types:

    from launcher import check, launch, plan

    made = plan("job.yaml", set={"resources.instance_count": 4})   # a TrainingPlan; calls nothing
    findings = check("job.yaml", live=True)                        # what speaks against it, here and on AWS
    job = launch("job.yaml", cluster="dev")                        # a Job, at once; local=True runs it here
    job.wait().succeeded, job.logs(rank=0), job.diagnosis()

`LaunchRefusedError` carries the `Finding`s that forbid a launch; it and whatever else a person can act on
is a `Refusal`, and what AWS refuses an `AwsRefusal`. All other modules are the launcher's own and may change;
the command line is the `launch` script. Names are loaded when asked for, so that the command line pays for
nothing that it does not use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.api import Job, JobLogs, LaunchRefusedError, check, launch, plan
    from launcher.backends.interface import JobStatus
    from launcher.diagnosis.model import Diagnosis
    from launcher.failure_modes.model import AwsRefusal, Finding, Refusal
    from launcher.planning.training_plan import TrainingPlan
    from launcher.session.runs.diagnose_job import Outcome
    from launcher.text import __version__

__all__ = [
    "AwsRefusal",
    "Diagnosis",
    "Finding",
    "Job",
    "JobLogs",
    "JobStatus",
    "LaunchRefusedError",
    "Outcome",
    "Refusal",
    "TrainingPlan",
    "__version__",
    "check",
    "launch",
    "plan",
]

_HOMES = {
    "AwsRefusal": "launcher.failure_modes.model",
    "Diagnosis": "launcher.diagnosis.model",
    "Finding": "launcher.failure_modes.model",
    "Job": "launcher.api",
    "JobLogs": "launcher.api",
    "JobStatus": "launcher.backends.interface",
    "LaunchRefusedError": "launcher.api",
    "Outcome": "launcher.session.runs.diagnose_job",
    "Refusal": "launcher.failure_modes.model",
    "TrainingPlan": "launcher.planning.training_plan",
    "__version__": "launcher.text",
    "check": "launcher.api",
    "launch": "launcher.api",
    "plan": "launcher.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
