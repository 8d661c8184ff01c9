"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import distribution, job_runtime, storage
from launcher.failure_modes.model import Finding, Location, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import DEFAULT_CHECKPOINT_PATH, JobSpec
from launcher.planning.destination import Destination, resolve_destination
from launcher.planning.images import ImageUnavailableError, training_image
from launcher.planning.naming import job_name
from launcher.planning.request import build_request
from launcher.planning.request_check import check_request
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import LaunchStrategy, Objection, Submission
from launcher.planning.training_plan import Request, SourcePackage, TrainingPlan
from launcher.planning.tuning import Setting, settings, tuned_environment

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

    The request is built wherever it can be, also where findings forbid sending it: some of them the
    user may accept.
    """
    name = job_name(job.name, unique)
    facts = instance_facts(job.resources.instance_type)
    destination = resolve_destination(job, cluster, name, session_region)
    strategy = strategy_of(job)
    processes = strategy.processes_per_host(job, facts)
    objections = list(strategy.supported(job, facts, processes))
    image, no_image = _image(job, facts, strategy, destination.region, locate)
    no_processes = _unknown_processes(job, locate) if processes is None else []
    no_lustre = _missing_lustre(job, destination, cluster, locate)

    request: Request | None = None
    chosen: list[Setting] = []
    senseless = any(objection.is_about_values for objection in objections)
    if processes and image and not no_lustre and not senseless:
        chosen = [*settings(job, facts, processes), *_checkpoint_settings(job, destination)]
        submission = Submission(name, destination.region, _archive(strategy, destination), processes)
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes),
            hyperparameters=strategy.hyperparameters(job, submission),
            environment=tuned_environment(job.environment, chosen),
            destination=destination,
            facts=facts,
        )
    return TrainingPlan(
        job=_resolved(job, processes),
        region=destination.region,
        request=request,
        package=None if request is None else _package(job, strategy, destination, folder),
        findings=(
            *destination.findings,
            *no_processes,
            *_findings(objections, locate),
            *no_image,
            *no_lustre,
            *(check_request("CreateTrainingJob", request, locate) if request else ()),
        ),
        placeholders=destination.placeholders,
        settings=tuple(chosen),
        world_size=None if processes is None else strategy.world_size(job, processes),
    )


def _findings(objections: Iterable[Objection], locate: Locate) -> list[Finding]:
    return [
        objection.mode.finding(
            Stage.SPEC,
            objection.message,
            remedy=objection.remedy,
            location=locate(*objection.path),
            subject=".".join(objection.path),
        )
        for objection in objections
    ]


def _checkpoint_settings(job: JobSpec, destination: Destination) -> list[Setting]:
    """What no config file of the container tells: where checkpoints lie, and whereto they are moved."""
    checkpoint = job.checkpoint
    if checkpoint is None:
        return []
    told = {}
    if checkpoint.local_path != DEFAULT_CHECKPOINT_PATH:
        told["SLIPWAY_CHECKPOINT_DIR"] = (
            checkpoint.local_path,
            "where the script finds and saves checkpoints",
        )
    if checkpoint.sync == "slipway" and destination.checkpoints is not None:
        told["SLIPWAY_CHECKPOINT_URI"] = (
            destination.checkpoints,
            "where the script's CheckpointManager moves checkpoints, in SageMaker's place",
        )
    return [
        Setting(
            name,
            value,
            reason,
            "Slipway: docs/design.md",
            overridden_by=name if name in job.environment else None,
        )
        for name, (value, reason) in told.items()
    ]


def _archive(strategy: LaunchStrategy, destination: Destination) -> str:
    return f"{destination.code}/{strategy.archive_name}"


def _package(job: JobSpec, strategy: LaunchStrategy, destination: Destination, folder: Path) -> SourcePackage:
    return SourcePackage(
        source_dir=(folder / job.code.source_dir).resolve(),
        entry_point=job.code.entry_point,
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


@finds(Stage.SPEC, job_runtime.IMAGE_UNAVAILABLE)
def _image(
    job: JobSpec, facts: InstanceFacts | None, strategy: LaunchStrategy, region: str, locate: Locate
) -> tuple[str | None, list[Finding]]:
    if job.image is not None or job.framework is None:
        return job.image, []
    wanted = job.framework
    try:
        if facts is not None and facts.accelerator_kind == "neuron" and facts.accelerator != "Trainium":
            raise ImageUnavailableError(
                f"no {wanted.name} image for {facts.accelerator} is in the table",
                "Give `image` explicitly.",
            )
        image = training_image(
            strategy.image(facts),
            wanted.version,
            wanted.python,
            region,
            _processor(facts),
            job.resources.instance_type,
        )
        return image, []
    except ImageUnavailableError as error:
        found = job_runtime.IMAGE_UNAVAILABLE.finding(
            Stage.SPEC,
            error.message,
            remedy=error.remedy,
            location=locate("framework", "version"),
            subject="framework",
        )
        return None, [found]


def _processor(facts: InstanceFacts | None) -> str:
    """The image table's word; an unknown type is taken for one with GPUs."""
    if facts is None or facts.has_gpus:
        return "gpu"
    return "neuron" if facts.accelerator_kind == "neuron" else "cpu"


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
