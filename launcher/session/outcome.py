"""How a followed job ended, and why: its final status, and the diagnosis of a failure."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.backends.interface import Backend, JobState, JobStatus
from launcher.diagnosis.model import Diagnosis
from launcher.failure_modes.model import Finding
from launcher.session.diagnosis import diagnose_job, warnings_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended; `diagnosis` is that of a failed one, `step` the furthest that it reported.

    `warnings` are what a completed job's lines say against its success, None where nobody read them: those
    of a job on AWS that was not followed.
    """

    status: JobStatus
    diagnosis: Diagnosis | None = None
    step: float | None = None
    warnings: tuple[Finding, ...] | None = None

    @property
    def succeeded(self) -> bool:
        """Whether the job completed."""
        return self.status.state is JobState.COMPLETED

    @property
    def failure(self) -> Finding | None:
        """The finding of the root cause, where one is known."""
        cause = self.diagnosis.root_cause if self.diagnosis else None
        return cause.finding if cause else None


def outcome_of(
    backend: Backend,
    status: JobStatus,
    step: float | None = None,
    warnings: tuple[Finding, ...] | None = None,
) -> Outcome:
    """How a job ended, and why: the place where every command learns the cause of a failure.

    Reads the logs of a failed job. Raises AwsRefusal where AWS refuses them and gives no reason itself.
    """
    failed = status.state is JobState.FAILED
    if status.state is not JobState.COMPLETED:
        warnings = ()
    elif warnings is None and backend.runs_here:
        warnings = warnings_of(backend, status.name)
    return Outcome(status, diagnose_job(backend, status.name) if failed else None, step, warnings)
