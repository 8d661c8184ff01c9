"""What two runs are held against each other by: their fields, under the names of the job file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from launcher.jobs.specification import Strategy
from launcher.planning.request_parts import S3Channel
from launcher.planning.request_view import RequestView
from launcher.planning.shown import shown_job, shown_request
from launcher.planning.strategies.torch_xla import COMPILER_HYPERPARAMETER
from launcher.planning.training_plan import TrainingPlan

_OF_THE_JOB = "JOB"


def planned_fields(plan: TrainingPlan) -> dict[str, Any]:
    """The fields of a plan, as they are shown: those of its job file, its code, what follows in the request.

    What the plan itself chose stands below `request`.
    """
    fields = shown_job(plan)
    view = RequestView(shown_request(plan) or {})
    if plan.package is not None:
        fields["code"] = {**fields.get("code", {}), "content": plan.package.digest}
    own = fields.get("environment") or {}
    settings = {name: value for name, value in view.environment.items() if name not in own}
    fields["request"] = _without_name(view.name, {"image": view.image, "environment": settings})
    return fields


def submitted_fields(view: RequestView) -> dict[str, Any]:
    """The fields of a job that was submitted, by its request; where a job file would have had them."""
    return {
        "resources": {"instance_type": view.instance_type, "instance_count": view.hosts},
        "distribution": {"processes_per_host": view.processes_per_host},
        "image": view.image,
        "limits": {"max_runtime": view.max_runtime_seconds},
        **_without_name(
            view.name,
            {
                "code": {"uri": view.code_uri or view.code_archive},
                "hyperparameters": dict(view.hyperparameters),
                "environment": dict(view.environment),
                "inputs": {
                    channel.name: channel.uri
                    if isinstance(channel, S3Channel)
                    else f"{channel.file_system_id}:{channel.directory}"
                    for channel in view.inputs
                },
            },
        ),
    }


def planned_with_compiler(plan: TrainingPlan) -> bool:
    """Whether a plan runs with SageMaker Training Compiler."""
    return bool(plan.job.get("distribution", {}).get("strategy") == Strategy.TORCH_XLA.value)


def submitted_with_compiler(view: RequestView) -> bool:
    """Whether a job that was submitted runs with SageMaker Training Compiler."""
    return view.hyperparameters.get(COMPILER_HYPERPARAMETER, "").strip('"') == "true"


def _without_name(name: str | None, value: Any) -> Any:
    """The same with the job's unique name left out: it makes no two jobs differ."""
    if isinstance(value, Mapping):
        return {key: _without_name(name, item) for key, item in value.items()}
    return value.replace(name, _OF_THE_JOB) if name and isinstance(value, str) else value
