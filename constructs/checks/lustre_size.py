"""A Lustre file system has a deployment type, throughput and capacity that FSx offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from constructs.checks.app import App, finding

from launcher.cluster.lustre import (
    Deployment,
    capacity_problem,
    efa_problem,
    metadata_problem,
    read_cache_problem,
    storage_type,
    throughput_problem,
    tiered_metadata_problem,
    tiered_throughput_problem,
)
from launcher.failure_modes import sources
from launcher.failure_modes.model import FailureMode, Finding

NO_SUCH_FILE_SYSTEM = FailureMode(
    code="LustreSize",
    title="FSx offers no such Lustre file system",
    cause=(
        "CloudFormation does not compare these properties with one another, so `cdk synth` succeeds, and "
        "the deployment fails and rolls back some minutes later, with all that was created beside it."
    ),
    remedy=(
        "Choose from the table of CreateFileSystem: SSD capacities of 1200 GiB or a multiple of 2400 on "
        "the types in use today, and a throughput on the persistent types only."
    ),
    sources=(sources.FILE_SYSTEM_API,),
)
"""No mode of the catalogue: no job ever meets it, as the file system never comes to be."""


def lustre_file_systems_have_a_size_that_exists(app: App) -> Iterator[Finding]:
    """The properties of every Lustre file system fit one another; what is not known fits."""
    for file_system in app.lustre:
        for problem in _problems(file_system.properties):
            yield finding(NO_SUCH_FILE_SYSTEM, file_system.id, problem)


def _problems(properties: Mapping[str, Any]) -> Iterator[str]:
    lustre = properties.get("LustreConfiguration", {})
    # FSx makes the oldest type where none is given (FSx API reference).
    deployment = lustre.get("DeploymentType", "SCRATCH_1")
    known = deployment in get_args(Deployment) and isinstance(lustre.get("PerUnitStorageThroughput", 0), int)
    if not known:
        return
    if properties.get("StorageType") == "INTELLIGENT_TIERING":
        yield from _tiered_problems(properties, lustre, deployment)
        return
    throughput: int | None = lustre.get("PerUnitStorageThroughput")
    if problem := throughput_problem(deployment, throughput):
        yield problem
        return
    stored_on, written = storage_type(deployment, throughput), properties.get("StorageType", "SSD")
    if written in ("SSD", "HDD") and written != stored_on:
        at = f" at {throughput} MB/s per TiB" if throughput is not None else ""
        yield f"{deployment}{at} is stored on {stored_on}, not on {written}"
    metadata = lustre.get("MetadataConfiguration")
    iops = metadata.get("Iops") if isinstance(metadata, Mapping) else None
    if metadata is not None and isinstance(iops or 0, int):
        problem = metadata_problem(deployment, iops)
        if problem:
            yield problem
    efa = lustre.get("EfaEnabled") is True
    if efa and metadata is None and deployment == "PERSISTENT_2":
        yield "a file system with EFA needs a MetadataConfiguration"
    capacity = properties.get("StorageCapacity")
    if isinstance(capacity, int):
        problem = capacity_problem(deployment, throughput, capacity)
        if problem is None and efa:
            problem = efa_problem(deployment, throughput, capacity, metadata=True)
        if problem:
            yield problem


def _tiered_problems(
    properties: Mapping[str, Any], lustre: Mapping[str, Any], deployment: str
) -> Iterator[str]:
    if deployment != "PERSISTENT_2":
        yield f"{deployment} has no Intelligent-Tiering; only PERSISTENT_2 has"
    for name, has in (("StorageCapacity", properties), ("PerUnitStorageThroughput", lustre)):
        if name in has:
            yield f"Intelligent-Tiering has no {name}"
    cache, metadata = lustre.get("DataReadCacheConfiguration"), lustre.get("MetadataConfiguration")
    throughput = lustre.get("ThroughputCapacity")
    if throughput is None or cache is None:
        yield "Intelligent-Tiering needs a ThroughputCapacity and a DataReadCacheConfiguration"
        return
    if not isinstance(throughput, int):
        return
    if problem := tiered_throughput_problem(throughput):
        yield problem
    size = cache.get("SizeGiB") if isinstance(cache, Mapping) else None
    if isinstance(size, int) and (problem := read_cache_problem(throughput, size)):
        yield problem
    iops = metadata.get("Iops") if isinstance(metadata, Mapping) else metadata
    if isinstance(iops, int | None) and (problem := tiered_metadata_problem(iops)):
        yield problem
