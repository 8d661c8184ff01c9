"""Requests side by side, field by field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

from launcher.jobs.specification import JobSpec
from launcher.planning.planner import plan_job
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import read_source

WHOLE = ("Environment", "Tags", "VpcConfig")
"""Parts that are compared as one field."""


def plan_of(job: dict[str, Any], unique: str = "0unique") -> TrainingPlan:
    """The plan of a job without a cluster, in us-west-2."""
    return plan_job(
        JobSpec.model_validate(job),
        None,
        unique=unique,
        source=read_source(Path("/nowhere"), "train.py"),
        session_region="us-west-2",
        today=date(2026, 11, 22),
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
