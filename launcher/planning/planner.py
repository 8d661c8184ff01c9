"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import distribution, job_file, storage
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import check_alternatives
from launcher.planning.checkpoints import PlannedCheckpoints, planned_checkpoints
from launcher.planning.debugger import planned_debugger
from launcher.planning.destination import PLACEHOLDER_CODE, Destination, resolve_destination
from launcher.planning.image_choice import choose_image
from launcher.planning.naming import job_name
from launcher.planning.request import build_request
from launcher.planning.request_check import check_request
from launcher.planning.settings import Setting, job_environment, settings
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import LaunchStrategy, StartParameters, world_size
from launcher.planning.training_plan import Operation, Request, SourcePackage, TrainingPlan
from launcher.planning.tuning_job import not_tunable, tuning_request
from launcher.source.packaging import package_digest
from launcher.source.tree import SourceTree


def plan_job(
    job: JobSpec,
    cluster: Cluster | None,
    *,
    unique: str,
    source: SourceTree,
    session_region: str | None,
) -> TrainingPlan:
    """Derive the plan of a job.

    `unique` is the part that makes the name unique, `source` the code as it was read, and `session_region`
    the region to use where neither job nor cluster names one. Planning twice differs only in what `unique`
    goes into.

    The request is built wherever it can be, also where findings forbid sending it: some of them the
    user may accept.
    """
    name = job_name(job.name, unique)
    facts = instance_facts(job.resources.instance_type)
    strategy = strategy_of(job)
    code = PLACEHOLDER_CODE if source.digest is None else package_digest(source.digest, strategy.archive_name)
    destination = resolve_destination(job, cluster, session_region, code)
    checkpoints = planned_checkpoints(job, cluster, name)
    debugger = planned_debugger(job, checkpoints)
    processes = strategy.processes_per_host(job, facts)
    unsupported = [*not_tunable(job, name), *strategy.supported(job, facts, processes)]
    image, no_image = choose_image(job, facts, strategy, destination.region)
    elsewhere = check_alternatives(job, strategy, destination.region, [*unsupported, *no_image])
    no_processes = _unknown_processes(job) if processes is None else []
    no_lustre = _missing_lustre(job, checkpoints, destination, cluster)

    request: Request | None = None
    chosen: list[Setting] = []
    if processes and image and not no_lustre and not any(map(_is_about_a_value, unsupported)):
        chosen = settings(job, facts, processes, with_boot=strategy.with_boot, checkpoints=checkpoints)
        archive = f"{destination.code}/{strategy.archive_name}"
        start = StartParameters(name, destination.region, archive, processes)
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes),
            hyperparameters=strategy.hyperparameters(job, start),
            environment=job_environment(job.environment, chosen),
            destination=destination,
            checkpoints=checkpoints,
            debugger=debugger,
            facts=facts,
        )
        if job.tuning is not None:
            request = tuning_request(job, job.tuning, request)
    operation: Operation = "CreateHyperParameterTuningJob" if job.tuning else "CreateTrainingJob"
    return TrainingPlan(
        job=_resolved(job, processes),
        region=destination.region,
        request=request,
        package=None if request is None else _package(job, strategy, destination, source),
        findings=(
            *destination.findings,
            *no_processes,
            *unsupported,
            *no_image,
            *elsewhere,
            *no_lustre,
            *(check_request(operation, request) if request else ()),
        ),
        placeholders=destination.placeholders,
        settings=tuple(chosen),
        processes_per_host=processes,
        world_size=None if processes is None else world_size(job, processes),
        with_boot=strategy.with_boot,
        checkpoints=checkpoints,
        debugger=debugger,
        operation=operation,
        queue_arn=cluster.queue_arn if cluster else None,
    )


def _is_about_a_value(finding: Finding) -> bool:
    """Whether a value itself makes no sense, so that no request can hold it."""
    return finding.code == job_file.INVALID_VALUE.code and finding.severity is Severity.ERROR


def _package(
    job: JobSpec, strategy: LaunchStrategy, destination: Destination, source: SourceTree
) -> SourcePackage:
    return SourcePackage(
        source=source,
        s3_uri=destination.code,
        archive=strategy.archive_name,
        with_boot=strategy.with_boot,
    )


@finds(Stage.SPEC, distribution.PROCESSES_DIFFER_FROM_ACCELERATORS)
def _unknown_processes(job: JobSpec) -> list[Finding]:
    return [
        distribution.PROCESSES_DIFFER_FROM_ACCELERATORS.at(
            ("resources", "instance_type"),
            f"how many accelerators {job.resources.instance_type} has is not known here, so the number "
            "of processes per host cannot be derived",
            remedy="Give `distribution.processes_per_host`: one per GPU of the host.",
            subject="distribution.processes_per_host",
        )
    ]


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def _missing_lustre(
    job: JobSpec,
    checkpoints: PlannedCheckpoints | None,
    destination: Destination,
    cluster: Cluster | None,
) -> list[Finding]:
    if destination.lustre is not None:
        return []
    owner = f"the cluster {cluster.name} has none" if cluster else "the job names no cluster"
    found = [
        storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
            ("inputs", name),
            f"the input {name} reads {source.lustre} from a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or read the input from S3.",
        )
        for name, source in job.inputs.items()
        if source.lustre is not None
    ]
    if checkpoints is not None and checkpoints.lustre is not None:
        for_checkpoints = storage.LUSTRE_PATH_OUTSIDE_MOUNT.at(
            ("checkpoint", "lustre"),
            f"checkpoints go to {checkpoints.lustre} on a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or give `checkpoint.s3_uri`.",
        )
        found.insert(0, for_checkpoints)
    return found


def _resolved(job: JobSpec, processes_per_host: int | None) -> dict[str, Any]:
    """The job in its own keys, with the processes per host filled in."""
    resolved = job.model_dump(mode="json", exclude_none=True)
    if processes_per_host is not None:
        resolved["distribution"]["processes_per_host"] = processes_per_host
    return resolved
