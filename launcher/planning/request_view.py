"""What a training job's request tells about how to read its logs; a description has the same keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def hosts_in(request: Mapping[str, Any]) -> int | None:
    """The number of hosts, of all instance groups where there are groups."""
    resources = request.get("ResourceConfig", {})
    groups = resources.get("InstanceGroups")
    count = sum(group["InstanceCount"] for group in groups) if groups else resources.get("InstanceCount")
    return None if count is None else int(count)


def processes_per_host_in(request: Mapping[str, Any]) -> int | None:
    """As the request says it: to the boot, or to the toolkit's MPI."""
    arguments = list(request.get("AlgorithmSpecification", {}).get("ContainerArguments") or ())
    told = request.get("HyperParameters", {}).get("sagemaker_mpi_num_of_processes_per_host")
    if "--processes-per-host" in arguments[:-1]:
        told = arguments[arguments.index("--processes-per-host") + 1]
    return int(told) if told and str(told).isdigit() else None


def metrics_in(request: Mapping[str, Any]) -> dict[str, str]:
    """The metric definitions: name to regular expression."""
    definitions = request.get("AlgorithmSpecification", {}).get("MetricDefinitions") or ()
    return {definition["Name"]: definition["Regex"] for definition in definitions}
