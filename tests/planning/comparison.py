"""Requests side by side, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import botocore.session
from botocore.validate import ParamValidator

from launcher.cluster.manifest import Cluster
from launcher.jobs.specification import JobSpec
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import read_source

DAY = date(2026, 11, 22)
WHOLE = ("Environment", "Tags", "VpcConfig")
"""Parts that are compared as one field."""
SHAPES = {
    operation: botocore.session.get_session()
    .get_service_model("sagemaker")
    .operation_model(operation)
    .input_shape
    for operation in ("CreateTrainingJob", "CreateHyperParameterTuningJob")
}


def what_the_api_refuses(plan: TrainingPlan) -> str:
    """What the API's model, as botocore has it, says against the request; empty where it accepts it."""
    report = ParamValidator().validate(plan.request, SHAPES[plan.operation])
    return str(report.generate_report())


def plan_of(
    job: dict[str, Any], unique: str = "0unique", cluster: dict[str, Any] | None = None, today: date = DAY
) -> TrainingPlan:
    """The plan of a job in us-west-2, on the cluster of a manifest or on none."""
    return plan_job(
        JobSpec.model_validate(job),
        None if cluster is None else Cluster.model_validate(cluster),
        unique=unique,
        source=read_source(Path("/nowhere"), "train.py"),
        session_region="us-west-2",
        today=today,
    )


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The fields that differ, by dotted path: our value and theirs, None where it is missing."""
    mine, other = dict(_fields(ours)), dict(_fields(theirs))
    return {
        path: (mine.get(path), other.get(path))
        for path in sorted({*mine, *other})
        if mine.get(path) != other.get(path)
    }


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value and path not in WHOLE:
        for key, item in value.items():
            yield from _fields(item, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            name = item.get("ChannelName", index)
            yield from _fields(item, f"{path}.{name}")
    else:
        yield path, value
