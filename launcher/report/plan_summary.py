"""What a page shows of a plan, made from the plan: at the launch, as nothing else of it is kept."""

from __future__ import annotations

from launcher.failure_modes.model import Severity
from launcher.planning.job_cost import cost_in_words, estimate_cost
from launcher.planning.show_plan import find_credentials, mask_job, mask_request, mask_text
from launcher.planning.training_plan import TrainingPlan
from launcher.report.run_report import PlannedFinding, PlannedRun, PlannedSetting


def summary_of_plan(plan: TrainingPlan) -> PlannedRun:
    """What the page shows of a plan, without the values of variables and credentials.

    What stands in for a cluster or an account is no finding about a run, as only runs here go without.
    """
    view, credentials = plan.view, find_credentials(plan)
    estimate = None if view is None else estimate_cost(view, plan.region)
    return PlannedRun(
        findings=tuple(
            PlannedFinding(each.code, each.severity.value, each.message, each.remedy, each.ignored)
            for each in map(credentials.finding, plan.findings)
            if each.subject not in plan.placeholders or each.severity is not Severity.INFO
        ),
        settings=tuple(_settings(plan)),
        request=mask_request(plan),
        job=mask_job(plan),
        cost="" if view is None else cost_in_words(view, plan.region),
        usd_per_hour=None if estimate is None else estimate.per_hour,
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
