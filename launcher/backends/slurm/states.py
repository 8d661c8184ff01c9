"""What a state of Slurm's means for a run: whether it goes on, and how it ended. Pure.

Source: the manual page squeue(1), JOB STATE CODES.
"""

from __future__ import annotations

from collections.abc import Mapping

from launcher.backends.interface import JobState
from launcher.frozen import frozen

NOTICE_SECONDS = 120
"""So long before its time is up a job is told, as SageMaker gives one that is stopped
(API reference, StopTrainingJob)."""


def notice_seconds(limit: int) -> int:
    """How long before its time is up a job of this limit is told: of a short one a quarter is left, as it
    would be told before it has begun."""
    return min(NOTICE_SECONDS, limit // 4)


ENDED: Mapping[str, JobState] = {
    "COMPLETED": JobState.COMPLETED,
    "BOOT_FAIL": JobState.FAILED,
    "DEADLINE": JobState.STOPPED,
    "CANCELLED": JobState.STOPPED,
    "FAILED": JobState.FAILED,
    "NODE_FAIL": JobState.FAILED,
    "OUT_OF_MEMORY": JobState.FAILED,
    "PREEMPTED": JobState.STOPPED,
    "REVOKED": JobState.FAILED,
    "TIMEOUT": JobState.STOPPED,
}
"""The states that a job does not leave; all others go on by themselves, or when somebody lets them."""

PHASES: Mapping[str, str] = {"RUNNING": "Training", "PENDING": "Pending"}
"""How a phase is called here; others are called as Slurm calls them."""

WHY_ENDED: Mapping[str, str] = {
    "BOOT_FAIL": "a node of the job did not boot",
    "NODE_FAIL": "Slurm lost a node of the job",
    "OUT_OF_MEMORY": "Slurm ended it for its memory",
    "REVOKED": "another cluster of the federation took it",
    "DEADLINE": "it could not end before its deadline",
    "PREEMPTED": "another job took its nodes",
    "TIMEOUT": "its time limit",
}
"""What ended a job, in words."""


@frozen
class SlurmJob:
    """A job as Slurm knows it: its id, state and the reason for it, its nodes as Slurm writes them, how often
    it was started again, and its times in seconds since the epoch, None where there are none."""

    job_id: str
    state: str
    reason: str = ""
    nodes: str = ""
    restarts: int = 0
    started: float | None = None
    ended: float | None = None

    @property
    def end(self) -> JobState | None:
        """How it ended; None where it has not."""
        return ENDED.get(self.state)

    @property
    def phase(self) -> str:
        """What it does, in one word."""
        return PHASES.get(self.state, self.state.replace("_", " ").capitalize().replace(" ", ""))

    @property
    def explanation(self) -> str:
        """What Slurm says of it, in words."""
        text = f"Slurm's job {self.job_id} is {self.state}"
        if self.reason not in ("", "None"):
            text += f" ({self.reason})"
        return f"{text} on {self.nodes}" if self.nodes else text
