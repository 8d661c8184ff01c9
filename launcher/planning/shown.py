"""A plan as people see it: with the names of variables where the plan that is sent has their values, and
without what was found to be a credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from launcher.failure_modes.model import Path
from launcher.planning.masked import masked
from launcher.planning.request_check import job_path
from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import Request, TrainingPlan
from launcher.text.secrets import HIDDEN, credential_in

Shown = Callable[[Any, Path], Any]
"""From a value and its place to the value as it is shown."""


def shown_text(plan: TrainingPlan, text: str, *paths: Path) -> str:
    """A text about a plan, as it is shown; `paths` are the fields of the job file that it speaks of."""
    name = plan.name
    if name:
        # All that is made from the name has it: prefixes, checkpoints, the name of the code.
        text = text.replace(name, plan.substitutions.shown(name, ("name",)))
    return masked(plan).text(plan.substitutions.shown(text, *paths))


def shown_job(plan: TrainingPlan) -> dict[str, Any]:
    """The resolved job, as it is shown."""
    credentials = masked(plan)

    def shown(value: Any, path: Path) -> Any:
        return credentials.value(value, plan.substitutions.value(value, path), path)

    job: dict[str, Any] = _walked(plan.job, (), shown, credentials.key)
    return job


def shown_request(plan: TrainingPlan) -> Request | None:
    """The request, as it is shown: what is sent, but for the values of variables and credentials."""
    request, credentials = plan.request, masked(plan)
    if request is None or not (plan.substitutions.made or credentials):
        return request

    def shown(value: Any, place: Path) -> Any:
        origin = job_path(place, request)
        if isinstance(value, str):
            return credentials.value(value, shown_text(plan, value, origin), origin)
        return plan.substitutions.value(value, origin)

    made: Request = _walked(request, (), shown, lambda key, at: credentials.key(key, job_path(at, request)))
    return made


def shown_earlier(plan: TrainingPlan, earlier: Request) -> Request:
    """An earlier request under this plan's name, beside the plan's own: what is alike is shown alike.

    In environment and hyperparameters, another value than the plan's variable or credential is hidden:
    it was that variable's before, or such a credential. So is what looks like one by itself.
    """
    now, now_shown = plan.request or {}, shown_request(plan) or {}
    name = str(RequestView(earlier).name)

    def shown(value: Any, place: Path) -> Any:
        sent, seen = _at(now, place), _at(now_shown, place)
        if isinstance(value, str):
            # The unique name differs from job to job, and with it all that is made from it.
            value = value.replace(name, str(plan.name))
        if value in (sent, seen):
            return seen
        if seen != sent and job_path(place, now)[:1] in (("environment",), ("hyperparameters",)):
            return HIDDEN
        if isinstance(value, str) and credential_in(value):
            return HIDDEN
        return shown_text(plan, value) if isinstance(value, str) else value

    made: Request = _walked(earlier, (), shown)
    return made


def _walked(value: Any, place: Path, shown: Shown, named: Shown = lambda key, _: key) -> Any:
    """The value with all within it as `shown` says, and the keys as `named` does."""
    if isinstance(value, dict):
        return {
            named(key, (*place, key)): _walked(item, (*place, key), shown, named)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_walked(item, (*place, index), shown, named) for index, item in enumerate(value)]
    return shown(value, place)


def _at(value: Any, place: Path) -> Any:
    """What stands at a place; None where there is none."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value
