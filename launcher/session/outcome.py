"""How a followed job ended, and why: its final status, and the diagnosis of one that did not complete."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.backends.interface import Backend, JobState, JobStatus
from launcher.diagnosis.model import Diagnosis, RootCause, Verdict
from launcher.failure_modes.model import Finding
from launcher.session.diagnosis import Check, diagnosis_of, warnings_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended; `diagnosis` is that of one that failed or was stopped, `step` the furthest that it
    reported.

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
    def verdict(self) -> Verdict | None:
        """What became of the job; None as long as it runs."""
        if self.diagnosis is not None:
            return self.diagnosis.verdict
        return Verdict.HEALTHY if self.succeeded else None

    @property
    def cause(self) -> Finding | None:
        """The finding of what ended the job, a failure or a stop, where it is known."""
        cause = self.diagnosis.root_cause if self.diagnosis else None
        return cause.finding if cause else None

    @property
    def failure(self) -> RootCause | None:
        """The root cause of a failure, where one is known; a stop is none."""
        return self._cause_if(Verdict.FAILED)

    @property
    def stop(self) -> RootCause | None:
        """What ended from outside a job in which nothing had failed."""
        return self._cause_if(Verdict.STOPPED)

    def _cause_if(self, verdict: Verdict) -> RootCause | None:
        diagnosis = self.diagnosis
        return diagnosis.root_cause if diagnosis is not None and diagnosis.verdict is verdict else None


def outcome_of(
    backend: Backend,
    status: JobStatus,
    step: float | None = None,
    warnings: tuple[Finding, ...] | None = None,
    check: Check | None = None,
) -> Outcome:
    """How a job ended, and why: the place where every command learns the cause of a failure or a stop.

    Reads the logs of a job that did not complete; `check` is as in `diagnose_job`. Raises AwsRefusal where
    AWS refuses them and gives no reason itself.
    """
    ended = status.state in (JobState.FAILED, JobState.STOPPED)
    if status.state is not JobState.COMPLETED:
        warnings = ()
    elif warnings is None and backend.runs_here:
        warnings = warnings_of(backend, status.name)
    diagnosis = diagnosis_of(backend, status, check=check) if ended else None
    return Outcome(status, diagnosis, step, warnings)
