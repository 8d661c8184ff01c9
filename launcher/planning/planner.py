"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import distribution, storage
from launcher.failure_modes.model import Finding, Locate, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.checkpoint import (
    CHECKPOINT_CHANNEL,
    CHECKPOINT_DIR_VARIABLE,
    CHECKPOINT_URI_VARIABLE,
    DEFAULT_CHECKPOINT_PATH,
)
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import objections_to_alternatives
from launcher.planning.destination import PLACEHOLDER_CODE, Destination, resolve_destination
from launcher.planning.image_choice import choose_image
from launcher.planning.naming import job_name
from launcher.planning.request import build_request
from launcher.planning.request_check import check_request
from launcher.planning.settings import Setting, job_environment, settings
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import LaunchStrategy, Objection, Submission
from launcher.planning.training_plan import Operation, Request, SourcePackage, TrainingPlan
from launcher.planning.tuning_job import tuning_objections, tuning_request
from launcher.source.packaging import package_digest
from launcher.source.tree import SourceTree


def plan_job(
    job: JobSpec,
    cluster: Cluster | None,
    *,
    unique: str,
    source: SourceTree,
    session_region: str | None,
    locate: Locate,
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
    destination = resolve_destination(job, cluster, name, session_region, code)
    processes = strategy.processes_per_host(job, facts)
    objections = [*tuning_objections(job, name), *strategy.supported(job, facts, processes)]
    image, no_image = choose_image(job, facts, strategy, destination.region)
    elsewhere = objections_to_alternatives(job, strategy, destination.region, [*objections, *no_image])
    no_processes = _unknown_processes(job, locate) if processes is None else []
    no_lustre = _missing_lustre(job, destination, cluster, locate)

    request: Request | None = None
    chosen: list[Setting] = []
    senseless = any(objection.is_about_values for objection in objections)
    if processes and image and not no_lustre and not senseless:
        chosen = [*settings(job, facts, processes), *_checkpoint_settings(job, name, destination)]
        submission = Submission(name, destination.region, _archive(strategy, destination), processes)
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes),
            hyperparameters=strategy.hyperparameters(job, submission),
            environment=job_environment(job.environment, chosen),
            destination=destination,
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
            *_findings([*objections, *no_image, *elsewhere], locate),
            *no_lustre,
            *(check_request(operation, request, locate) if request else ()),
        ),
        placeholders=destination.placeholders,
        settings=tuple(chosen),
        world_size=None if processes is None else strategy.world_size(job, processes),
        operation=operation,
        queue_arn=cluster.queue_arn if cluster else None,
    )


def _findings(objections: Iterable[Objection], locate: Locate) -> list[Finding]:
    return [
        objection.mode.finding(
            Stage.SPEC,
            objection.message,
            remedy=objection.remedy,
            location=locate(*objection.path),
            subject=".".join(map(str, objection.path)),
        )
        for objection in objections
    ]


def _checkpoint_settings(job: JobSpec, job_name: str, destination: Destination) -> list[Setting]:
    """What no config file of the container tells: where checkpoints lie, and whereto they are moved."""
    checkpoint = job.checkpoint
    if checkpoint is None:
        return []
    told = {}
    if checkpoint.lustre is not None:
        # A channel is mounted below /opt/ml/input/data (SageMaker API, Channel).
        told[CHECKPOINT_DIR_VARIABLE] = (
            f"/opt/ml/input/data/{CHECKPOINT_CHANNEL}/{job_name}",
            f"{checkpoint.lustre} on the file system, where the job has a directory of its own",
        )
    elif checkpoint.local_path != DEFAULT_CHECKPOINT_PATH:
        told[CHECKPOINT_DIR_VARIABLE] = (
            checkpoint.local_path,
            "where the script finds and saves checkpoints",
        )
    if checkpoint.sync == "slipway" and destination.checkpoints is not None:
        told[CHECKPOINT_URI_VARIABLE] = (
            destination.checkpoints,
            "where the script itself must upload its checkpoints: SageMaker does not",
        )
    return [
        Setting(
            name,
            value,
            reason,
            "Slipway: docs/job-file.md",
            overridden_by=name if name in job.environment else None,
        )
        for name, (value, reason) in told.items()
    ]


def _archive(strategy: LaunchStrategy, destination: Destination) -> str:
    return f"{destination.code}/{strategy.archive_name}"


def _package(
    job: JobSpec, strategy: LaunchStrategy, destination: Destination, source: SourceTree
) -> SourcePackage:
    return SourcePackage(
        source=source,
        s3_uri=destination.code,
        archive=strategy.archive_name,
        with_boot=strategy.entry(job, 1) is not None,
    )


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


@finds(Stage.SPEC, storage.LUSTRE_PATH_OUTSIDE_MOUNT)
def _missing_lustre(
    job: JobSpec, destination: Destination, cluster: Cluster | None, locate: Locate
) -> list[Finding]:
    if destination.lustre is not None:
        return []
    owner = f"the cluster {cluster.name} has none" if cluster else "the job names no cluster"
    return [
        *_missing_for_checkpoints(job, owner, locate),
        *_missing_for_inputs(job, owner, locate),
    ]


def _missing_for_inputs(job: JobSpec, owner: str, locate: Locate) -> list[Finding]:
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


def _missing_for_checkpoints(job: JobSpec, owner: str, locate: Locate) -> list[Finding]:
    if job.checkpoint is None or job.checkpoint.lustre is None:
        return []
    return [
        storage.LUSTRE_PATH_OUTSIDE_MOUNT.finding(
            Stage.SPEC,
            f"checkpoints go to {job.checkpoint.lustre} on a Lustre file system, but {owner}",
            remedy="Name a cluster that has a file system, or give `checkpoint.s3_uri`.",
            location=locate("checkpoint", "lustre"),
            subject="checkpoint.lustre",
        )
    ]


def _resolved(job: JobSpec, processes_per_host: int | None) -> dict[str, Any]:
    """The job in its own keys, with the processes per host filled in."""
    resolved = job.model_dump(mode="json", exclude_none=True)
    if processes_per_host is not None:
        resolved["distribution"]["processes_per_host"] = processes_per_host
    return resolved
