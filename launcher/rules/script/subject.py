"""What the rules judge that know the job beside the script."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.scripts.program import Program

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec
    from launcher.planning.training_plan import TrainingPlan


@dataclass(frozen=True, slots=True)
class ScriptSubject:
    """A program, and the job with its plan that starts it."""

    program: Program
    job: JobSpec
    plan: TrainingPlan
