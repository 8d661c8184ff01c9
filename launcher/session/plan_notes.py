"""What a job was planned to be: kept on this machine at its launch, and told on the page of its run.

A job that has run tells its request and nothing of why: findings, settings with their reasons and the price
are the plan's alone.
"""

from __future__ import annotations

import json

from launcher.report.run_report import PlannedRun, summary_from_json, summary_to_json
from launcher.text.regular_files import NoteFolder, cache_folder

PLAN_KEPT_SECONDS = 90 * 24 * 3600
"""A job runs for 28 days at most (SageMaker API, StoppingCondition); its page is made up to weeks later."""

_PLAN_NOTES = NoteFolder(lambda: cache_folder() / "plans", PLAN_KEPT_SECONDS)


def write_plan_note(name: str, planned: PlannedRun) -> None:
    """Keep the plan of a job as it may be shown. A machine that can keep nothing goes without."""
    _PLAN_NOTES.write(name, json.dumps(summary_to_json(planned), default=str))


def read_plan_note(name: str) -> PlannedRun | None:
    """The plan of a job; None where this machine has no note that can be read."""
    try:
        return summary_from_json(_PLAN_NOTES.read(name))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
