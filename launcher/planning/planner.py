"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.jobs.load_job import check_folders, list_folders, replace_folders
from launcher.jobs.script_inputs import DEFAULT_CHECKPOINT_PATH
from launcher.jobs.specification import JobSpec
from launcher.planning.image_choice import (
    check_alternatives,
    check_patches,
    choose_image,
    choose_version,
    job_image_software,
    job_on_type,
)
from launcher.planning.job_identity import check_cluster_tag, make_job_name
from launcher.planning.request import (
    build_request,
    build_tuning_request,
    check_request,
    check_tuning,
    forbids_request,
)
from launcher.planning.settings import choose_settings, job_environment
from launcher.planning.show_plan import requirements_for_boot
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import (
    StartParameters,
    check_framework,
    check_processes,
    world_size,
)
from launcher.planning.training_plan import (
    PLACEHOLDER_CODE,
    Operation,
    Request,
    Setting,
    SourcePackage,
    TrainingPlan,
    check_lustre,
    plan_checkpoints,
    plan_debugger,
    resolve_destination,
)
from launcher.source.packaging import package_digest
from launcher.source.tree import SourceTree


def plan_job(
    job: JobSpec,
    cluster: Cluster | None,
    *,
    unique: str,
    source: SourceTree,
    session_region: str | None,
    today: date,
) -> TrainingPlan:
    """Derive the plan of a job.

    `unique` is the part that makes the name unique, `source` the code as it was read, and `session_region`
    the region to use where neither job nor cluster names one. `today` decides which images are still
    patched. Planning twice on one day differs only in what `unique` goes into.

    The request is built wherever it can be, also where findings forbid sending it: some of them the
    user may accept.
    """
    name = make_job_name(job.name, unique)
    facts = instance_facts(job.resources.instance_type)
    strategy = strategy_of(job)
    code = PLACEHOLDER_CODE if source.digest is None else package_digest(source.digest, strategy.archive_name)
    destination = resolve_destination(job, cluster, session_region, code)
    job, version_choice = choose_version(job, strategy, destination.region, today)
    checkpoints = plan_checkpoints(job, cluster, name)
    debugger = plan_debugger(job, checkpoints, destination.region)
    processes = strategy.processes_per_host(job, facts)
    unsupported = [
        *check_folders(job),
        *check_tuning(job, name),
        *check_framework(job),
        *strategy.supported(job, facts, processes),
    ]
    image, no_image = choose_image(job, facts, strategy, destination.region)
    elsewhere = check_alternatives(job, strategy, destination.region, [*unsupported, *no_image])
    no_lustre = check_lustre(job, checkpoints, destination, cluster)

    request: Request | None = None
    package: SourcePackage | None = None
    chosen: list[Setting] = []
    if processes and image and not no_lustre and not any(map(forbids_request, unsupported)):
        chosen = choose_settings(
            job,
            facts,
            processes,
            with_boot=strategy.with_boot,
            source_digest=source.digest,
            checkpoints=checkpoints,
            software=job_image_software(job, facts),
        )
        archive = f"{destination.code}/{strategy.archive_name}"
        folders = list_folders(job, checkpoints.local_path if checkpoints else DEFAULT_CHECKPOINT_PATH)
        start = StartParameters(name, destination.region, archive, processes, folders)
        environment = job_environment(job.environment, chosen)
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes, requirements_for_boot(job.code, source)),
            hyperparameters=strategy.hyperparameters(job, start),
            # What the boot starts finds them by itself, on AWS and elsewhere.
            environment=environment if strategy.with_boot else replace_folders(environment, folders),
            destination=destination,
            checkpoints=checkpoints,
            debugger=debugger,
            facts=facts,
        )
        if job.tuning is not None:
            request = build_tuning_request(job.tuning, request)
        package = SourcePackage(source, destination.code, strategy.archive_name, strategy.with_boot)

    def request_on(instance_type: str) -> Request | None:
        on_it = job_on_type(job, instance_type)
        return plan_job(
            on_it, cluster, unique=unique, source=source, session_region=session_region, today=today
        ).request

    operation: Operation = "CreateHyperParameterTuningJob" if job.tuning else "CreateTrainingJob"
    return TrainingPlan(
        job=job.resolved(processes),
        spec=job,
        version_choice=version_choice,
        region=destination.region,
        request=request,
        package=package,
        findings=(
            *destination.findings,
            *check_processes(job, processes),
            *unsupported,
            *no_image,
            *check_patches(job, image, today),
            *elsewhere,
            *check_preferences(job, request, request_on),
            *no_lustre,
            *check_cluster_tag(job, cluster),
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
        bucket_owners=cluster.bucket_owners if cluster else {},
    )


# The instance types from which the service chooses: one request must serve whichever it takes. Source:
# SageMaker API reference, ResourceConfig (InstancePreferences): the service starts the job on the first
# type of the list that has capacity, and tells no request which one that will be.


_ARE_THE_CHOICE = ("InstanceType", "InstancePreferences")
_REMOVE = (
    "Remove the type from `instance_types`, or let `instance_choice: launcher` plan each type by itself."
)


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def check_preferences(
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
