"""What a job was planned to be: kept on this machine at its launch, and told on the page of its run.

A job that has run tells its request and nothing of why: findings, settings with their reasons and the price
are the plan's alone.
"""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

from launcher.cluster.cache_folder import cache_folder
from launcher.documents.files import read_regular, replace_file
from launcher.planning.training_plan import TrainingPlan
from launcher.report.plan_summary import summary_from_json, summary_of_plan, summary_to_json
from launcher.report.run_report import PlannedRun
from launcher.session.left_out import note_left_out

KEPT_SECONDS = 90 * 24 * 3600
"""A job runs for 28 days at most (SageMaker API, StoppingCondition); its page is made up to weeks later."""

_MOST_BYTES = 10_000_000


def note_start(name: str, plan: TrainingPlan) -> None:
    """Keep what a diagnosis and a page ask of a run that begins: its plan, and what of the code was left
    out."""
    if plan.package is not None:
        note_left_out(name, plan.package.source)
    note_plan(name, plan)


def note_plan(name: str, plan: TrainingPlan) -> None:
    """Keep the plan of a job as it may be shown. A machine that can keep nothing goes without."""
    with contextlib.suppress(OSError):
        folder = _folder()
        _collect(folder)
        replace_file(folder / f"{name}.json", json.dumps(summary_to_json(summary_of_plan(plan)), default=str))


def noted_plan(name: str) -> PlannedRun | None:
    """The plan of a job; None where this machine has no note that can be read."""
    try:
        return summary_from_json(json.loads(read_regular(_folder() / f"{name}.json", _MOST_BYTES)))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _folder() -> Path:
    return cache_folder() / "plans"


def _collect(folder: Path) -> None:
    """Remove the notes on jobs of long ago."""
    for note in folder.glob("*.json"):
        with contextlib.suppress(OSError):
            if time.time() - note.stat().st_mtime > KEPT_SECONDS:
                note.unlink()
