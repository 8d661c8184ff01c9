"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import distribution, job_runtime, storage
from launcher.failure_modes.model import Finding, Location, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.plan.destination import Destination, resolve_destination
from launcher.plan.images import ImageUnavailableError, training_image
from launcher.plan.naming import job_name
from launcher.plan.request import build_request
from launcher.plan.strategies.catalogue import STRATEGIES
from launcher.plan.training_plan import SourcePackage, TrainingPlan
from launcher.plan.tuning import settings, tuned_environment

Locate = Callable[..., Location | None]
"""Where a field stands in the job file: `locate("resources", "instance_type")`."""


def plan_job(
    job: JobSpec,
    cluster: Cluster | None,
    *,
    unique: str,
    folder: Path,
    session_region: str | None,
    locate: Locate,
) -> TrainingPlan:
    """Derive the plan of a job.

    `unique` is the part that makes the name unique, `folder` the job file's folder, against which
    paths are resolved, and `session_region` the region to use where neither job nor cluster names
    one. Planning twice differs only in what `unique` goes into.
    """
    name = job_name(job.name, unique)
    facts = instance_facts(job.resources.instance_type)
    destination = resolve_destination(job, cluster, name, session_region)
    findings = list(destination.findings)
    strategy = STRATEGIES.get(job.distribution.strategy)
    processes = strategy.processes_per_host(job, facts) if strategy else None
    findings += _unsupported(job, locate) if strategy is None else []
    findings += _unknown_processes(job, locate) if strategy and processes is None else []
    image, found = _image(job, facts, destination.region, locate)
    findings += [*found, *_missing_lustre(job, destination, cluster, locate)]

    request = package = None
    if strategy and processes and image and not any(finding.blocks for finding in findings):
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes),
            environment=tuned_environment(
                job.environment,
                settings(
                    vcpus=facts.vcpus if facts else None,
                    processes_per_host=processes,
                    torch_version=job.framework.version if job.framework else None,
                    debug=job.profile == "debug",
                ),
            ),
            destination=destination,
            facts=facts,
        )
        package = SourcePackage(
            source_dir=(folder / job.code.source_dir).resolve(),
            entry_point=job.code.entry_point,
            s3_uri=destination.code,
        )
    return TrainingPlan(
        job=_resolved(job, processes),
        region=destination.region,
        request=request,
        package=package,
        findings=tuple(findings),
        placeholders=destination.placeholders,
    )


@finds(Stage.SPEC, distribution.UNSUPPORTED_COMBINATION)
def _unsupported(job: JobSpec, locate: Locate) -> list[Finding]:
    built = ", ".join(strategy.value for strategy in STRATEGIES)
    return [
        distribution.UNSUPPORTED_COMBINATION.finding(
            Stage.SPEC,
            f"the strategy {job.distribution.strategy.value} cannot be launched by this version",
            remedy=f"Use one of: {built}.",
            location=locate("distribution", "strategy"),
            subject="distribution.strategy",
        )
    ]


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def _unknown_processes(job: JobSpec, locate: Locate) -> list[Finding]:
    return [
        distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.finding(
            Stage.SPEC,
            f"how many accelerators {job.resources.instance_type} has is not known here, so the number "
            "of processes per host cannot be derived",
            remedy="Give `distribution.processes_per_host`: one per GPU of the host.",
            location=locate("resources", "instance_type"),
            subject="distribution.processes_per_host",
        )
    ]


@finds(Stage.SPEC, job_runtime.IMAGE_UNAVAILABLE)
def _image(
    job: JobSpec, facts: InstanceFacts | None, region: str, locate: Locate
) -> tuple[str | None, list[Finding]]:
    if job.image is not None or job.framework is None:
        return job.image, []
    processor = "gpu" if facts is None or facts.accelerators else "cpu"
    framework = job.framework
    try:
        if facts is not None and facts.accelerator_kind == "neuron":
            raise ImageUnavailableError(
                f"no {framework.name} image for {facts.accelerator} is in the table",
                "Give `image` explicitly.",
            )
        return training_image(framework.name, framework.version, framework.python, region, processor), []
    except ImageUnavailableError as error:
        found = job_runtime.IMAGE_UNAVAILABLE.finding(
            Stage.SPEC,
            error.message,
            remedy=error.remedy,
            location=locate("framework", "version"),
            subject="framework",
        )
        return None, [found]


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def _missing_lustre(
    job: JobSpec, destination: Destination, cluster: Cluster | None, locate: Locate
) -> list[Finding]:
    if destination.lustre is not None:
        return []
    owner = f"the cluster {cluster.name} has none" if cluster else "the job names no cluster"
    return [
        storage.LUSTRE_PATH_OUTSIDE_MOUNT.finding(
            Stage.SPEC,
            f"the input {name} reads {source.lustre} from a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or read the input from S3.",
            location=locate("inputs", name),
            subject=f"inputs.{name}",
        )
        for name, source in job.inputs.items()
        if source.lustre is not None
    ]


def _resolved(job: JobSpec, processes_per_host: int | None) -> dict[str, Any]:
    """The job in its own keys, with the processes per host filled in."""
    resolved = job.model_dump(mode="json", exclude_none=True)
    if processes_per_host is not None:
        resolved["distribution"]["processes_per_host"] = processes_per_host
    return resolved
