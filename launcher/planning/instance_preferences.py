"""The instance types from which the service chooses: one request must serve whichever it takes.

Source: SageMaker API reference, ResourceConfig (InstancePreferences): the service starts the job on the
first type of the list that has capacity, and tells no request which one that will be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.training_plan import Request

_ARE_THE_CHOICE = ("InstanceType", "InstancePreferences")
_REMOVE = (
    "Remove the type from `instance_types`, or let `instance_choice: launcher` plan each type by itself."
)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def preferences_agree(
    job: JobSpec, request: Request | None, request_on: Callable[[str], Request | None]
) -> Iterator[Finding]:
    """Each further type that the service may take, and that would need another request than the first.

    `request_on` is the request that the job would have on a type alone.
    """
    resources = job.resources
    if resources.instance_choice != "service" or request is None:
        return
    first = resources.instance_type
    for index, other in enumerate(resources.instance_types):
        path = ("resources", "instance_types", index)
        alone = request_on(other)
        if alone is None:
            yield job_file.INVALID_VALUE.at(path, f"the job has no request on {other}", remedy=_REMOVE)
            continue
        for place, here, there in _differences(request, alone):
            yield job_file.INVALID_VALUE.at(
                path,
                f"{dotted(place)} of the request is {here} on {first} and {there} on {other}, and the "
                "service chooses between the two when it has the request already",
                remedy=_same_for_both(place),
            )
        if resources.instance_count > 1 and _has_efa(first) != _has_efa(other):
            with_it, without = (first, other) if _has_efa(first) else (other, first)
            yield job_file.INVALID_VALUE.at(
                path,
                f"{with_it} has EFA and {without} has none: which of the two the service takes would decide "
                "how fast the hosts talk to each other",
                remedy=_REMOVE,
            )


def _same_for_both(place: Path) -> str:
    if place[0] == "Environment":
        return f"Give `environment.{place[1]}` a value for all types, or remove this one."
    return _REMOVE


def _has_efa(instance_type: str) -> bool | None:
    facts = instance_facts(instance_type)
    return None if facts is None else facts.has_efa


def _differences(one: Any, other: Any, place: Path = ()) -> Iterator[tuple[Path, str, str]]:
    """Where two requests differ but for the instance types themselves, with what stands there in each."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys((*one, *other)):
            if key not in _ARE_THE_CHOICE:
                yield from _differences(one.get(key), other.get(key), (*place, key))
    elif one != other:
        yield place, _in_words(one), _in_words(other)


def _in_words(value: Any) -> str:
    return "not there" if value is None else str(value)
