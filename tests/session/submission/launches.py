"""What the tests of submissions share: names, notes, and launches that were cut off."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.backends.interface import Backend, OnProgress
from launcher.planning.training_plan import TrainingPlan
from launcher.session.submit_job import Journal, JournalEntry, Start
from tests.emulator.sagemaker import TrainingScript

PlanOf = Callable[..., TrainingPlan]
FOR_GOOD = 9
"""More failures in a row than any number of attempts."""


def launch(
    backend: Backend, plan: TrainingPlan, on_progress: OnProgress | None = None, run_id: str | None = None
) -> str:
    """Start the plan's job as every command does; returns its name."""
    return Start(backend, run_id, on_progress=on_progress).once(plan).name


def entries() -> list[Path]:
    return list(Journal().folder.glob("*"))


def names(script: TrainingScript) -> list[str]:
    return [request["TrainingJobName"] for request in script.requests]


def interrupt(plan: TrainingPlan, seconds_ago: float = 0, **changes: Any) -> None:
    """Leave the entry of a launch that was killed."""
    launch = replace(JournalEntry.of_plan(plan), started=time.time() - seconds_ago, **changes)
    Journal().record(launch).close()
