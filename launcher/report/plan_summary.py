"""A plan as the page of its run shows it, and as it is kept between the launch and the page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from launcher.planning.job_cost import cost_in_words, estimate_cost
from launcher.planning.show_plan import find_credentials, mask_job, mask_request, mask_text
from launcher.planning.training_plan import TrainingPlan
from launcher.report.run_report import PlannedFinding, PlannedRun, PlannedSetting


def summary_of_plan(plan: TrainingPlan) -> PlannedRun:
    """What the page shows of a plan, without the values of variables and credentials."""
    view, credentials = plan.view, find_credentials(plan)
    estimate = None if view is None else estimate_cost(view, plan.region)
    return PlannedRun(
        findings=tuple(
            PlannedFinding(each.code, each.severity.value, each.message, each.remedy, each.ignored)
            for each in map(credentials.finding, plan.findings)
        ),
        settings=tuple(_settings(plan)),
        request=mask_request(plan),
        job=mask_job(plan),
        cost="" if view is None else cost_in_words(view, plan.region),
        usd_per_hour=None if estimate is None else estimate.per_hour,
    )


NOT_KEPT = "(not kept)"

_WITH_VALUES = ("Environment", "HyperParameters", "environment", "hyperparameters")
"""Parts of a request and of a job file whose values may be secrets that nothing marks as such."""


def summary_to_json(planned: PlannedRun) -> dict[str, Any]:
    """The summary as it is kept: of variables and hyperparameters the names."""
    content = asdict(planned)
    for part in (content["request"], content["job"]):
        for name in _WITH_VALUES:
            if part and isinstance(part.get(name), dict):
                part[name] = dict.fromkeys(part[name], NOT_KEPT)
    for setting in content["settings"]:
        if setting["yours"] is not None:
            setting["yours"] = f"{setting['yours'].partition('=')[0]}={NOT_KEPT}"
    return content


def summary_from_json(content: dict[str, Any]) -> PlannedRun:
    """A summary that was kept. Raises KeyError, TypeError or ValueError for what is none."""
    price = content["usd_per_hour"]
    request, job = content["request"], content["job"]
    if not isinstance(job, dict) or not isinstance(request, dict | None):
        raise TypeError("a kept plan holds a job and its request")
    return PlannedRun(
        findings=tuple(PlannedFinding(**each) for each in content["findings"]),
        settings=tuple(PlannedSetting(**each) for each in content["settings"]),
        request=request,
        job=job,
        cost=str(content["cost"]),
        usd_per_hour=None if price is None else float(price),
    )


def _settings(plan: TrainingPlan) -> list[PlannedSetting]:
    chosen = plan.view.environment if plan.view else {}
    settings = []
    for each in plan.settings:
        name = each.overridden_by
        yours = None if name is None else f"{name}={mask_text(plan, chosen[name], ('environment', name))}"
        settings.append(
            PlannedSetting(each.name, mask_text(plan, each.value), mask_text(plan, each.reason), yours)
        )
    return settings
