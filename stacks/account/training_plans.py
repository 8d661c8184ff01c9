"""Whether the training plans that the nodes of `hyperpod` are to take can give them what they need.

A deployment would wait for nodes that never come, or have them where the file system is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.cluster.files import field_location
from launcher.cluster.hyperpod_section import HyperPodGroup
from launcher.cluster.specification import ClusterSpec
from stacks.account.deployed import Client, asked, make_client

_OVER = ("Expired", "Failed")
"""Of a plan's states those that are never left (SageMaker API reference, DescribeTrainingPlan)."""

_TARGET = "hyperpod-cluster"
"""What a plan must be for (the same, TargetResources)."""


def unfit_plans(spec: ClusterSpec, file: Path, account: str, client: Client | None = None) -> list[str]:
    """What is wrong with the plans, each with its place in the file; none where there are none.

    Raises:
        NotCompared: AWS did not tell.
    """
    client = client or make_client
    groups = spec.hyperpod.groups if spec.hyperpod else []
    otherwise = "whether the training plans fit was not looked at"
    found = []
    for position, group in enumerate(groups):
        if group.training_plan is None:
            continue
        where = field_location(file, ("hyperpod", "groups", position, "training_plan"))

        def ask(plan: str = group.training_plan) -> Mapping[str, Any] | None:
            sagemaker = client("sagemaker", spec.region)
            try:
                described: Mapping[str, Any] = sagemaker.describe_training_plan(TrainingPlanName=plan)
            except sagemaker.exceptions.ResourceNotFound:
                return None
            return described

        plan = asked(ask, account, spec.region, client, otherwise)
        found += [f"{where}: {each}" for each in _problems(plan, group, spec.file_system_zone)]
    return found


def _problems(plan: Mapping[str, Any] | None, group: HyperPodGroup, zone: str | None) -> Iterator[str]:
    if plan is None:
        yield f"there is no training plan {group.training_plan}: the nodes of {group.name} would never come"
        return
    name, state, targets = plan["TrainingPlanName"], plan["Status"], plan.get("TargetResources", [])
    if state in _OVER:
        yield f"the training plan {name} is {state}: the nodes of {group.name} would never come"
    if targets and _TARGET not in targets:
        yield f"the training plan {name} is for {', '.join(targets)}, not for HyperPod: buy one for {_TARGET}"
    reserved = plan.get("ReservedCapacitySummaries", [])
    of_type = [each for each in reserved if each["InstanceType"] == group.instance_type]
    if reserved and not of_type:
        types = ", ".join(sorted({each["InstanceType"] for each in reserved}))
        yield f"the training plan {name} has {types}, and {group.name} is of {group.instance_type}"
    # Parts of a plan follow one another, each with all the hosts.
    most = max((each["TotalInstanceCount"] for each in of_type), default=group.count)
    if group.count > most:
        yield f"the training plan {name} has {most} hosts, and {group.name} wants {group.count}"
    known = [each for each in of_type if any(_names(each))]
    elsewhere = sorted({str(_names(each)[0]) for each in known if zone not in _names(each)})
    if zone is not None and elsewhere:
        yield (
            f"the training plan {name} has its hosts in {', '.join(elsewhere)}, the file system is in "
            f"{zone}, where all nodes stand, as EFA crosses no zone"
        )


def _names(capacity: Mapping[str, Any]) -> list[Any]:
    return [capacity.get(key) for key in ("AvailabilityZone", "AvailabilityZoneId")]
