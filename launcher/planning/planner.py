"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from datetime import date

from launcher.cluster.instances import instance_facts
from launcher.cluster.manifest import Cluster
from launcher.jobs.container_folders import folders_of, unknown_folders, with_folders
from launcher.jobs.container_paths import DEFAULT_CHECKPOINT_PATH
from launcher.jobs.specification import JobSpec
from launcher.planning.alternatives import check_alternatives, job_on
from launcher.planning.checkpoints import planned_checkpoints
from launcher.planning.debugger import planned_debugger
from launcher.planning.destination import missing_lustre, resolve_destination
from launcher.planning.image_choice import choose_image, no_longer_patched
from launcher.planning.instance_preferences import preferences_agree
from launcher.planning.naming import job_name
from launcher.planning.placeholders import PLACEHOLDER_CODE
from launcher.planning.request import build_request, is_about_a_value
from launcher.planning.request_check import check_request
from launcher.planning.requirements import boot_installs
from launcher.planning.setting import Setting
from launcher.planning.settings import job_environment, settings
from launcher.planning.software_of_job import software_of
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import StartParameters, world_size
from launcher.planning.strategies.support import framework_is_started, processes_are_known
from launcher.planning.tags import foreign_cluster_tag
from launcher.planning.training_plan import Operation, Request, SourcePackage, TrainingPlan
from launcher.planning.tuning_job import not_tunable, tuning_request
from launcher.planning.version_choice import with_chosen_version
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
    name = job_name(job.name, unique)
    facts = instance_facts(job.resources.instance_type)
    strategy = strategy_of(job)
    code = PLACEHOLDER_CODE if source.digest is None else package_digest(source.digest, strategy.archive_name)
    destination = resolve_destination(job, cluster, session_region, code)
    job, version_choice = with_chosen_version(job, strategy, destination.region, today)
    checkpoints = planned_checkpoints(job, cluster, name)
    debugger = planned_debugger(job, checkpoints, destination.region)
    processes = strategy.processes_per_host(job, facts)
    unsupported = [
        *unknown_folders(job),
        *not_tunable(job, name),
        *framework_is_started(job),
        *strategy.supported(job, facts, processes),
    ]
    image, no_image = choose_image(job, facts, strategy, destination.region)
    elsewhere = check_alternatives(job, strategy, destination.region, [*unsupported, *no_image])
    no_lustre = missing_lustre(job, checkpoints, destination, cluster)

    request: Request | None = None
    package: SourcePackage | None = None
    chosen: list[Setting] = []
    if processes and image and not no_lustre and not any(map(is_about_a_value, unsupported)):
        chosen = settings(
            job,
            facts,
            processes,
            with_boot=strategy.with_boot,
            source_digest=source.digest,
            checkpoints=checkpoints,
            software=software_of(job, facts),
        )
        archive = f"{destination.code}/{strategy.archive_name}"
        folders = folders_of(job, checkpoints.local_path if checkpoints else DEFAULT_CHECKPOINT_PATH)
        start = StartParameters(name, destination.region, archive, processes, folders)
        environment = job_environment(job.environment, chosen)
        request = build_request(
            job,
            job_name=name,
            image=image,
            entry=strategy.entry(job, processes, boot_installs(job.code, source)),
            hyperparameters=strategy.hyperparameters(job, start),
            # What the boot starts finds them by itself, on AWS and elsewhere.
            environment=environment if strategy.with_boot else with_folders(environment, folders),
            destination=destination,
            checkpoints=checkpoints,
            debugger=debugger,
            facts=facts,
        )
        if job.tuning is not None:
            request = tuning_request(job.tuning, request)
        package = SourcePackage(source, destination.code, strategy.archive_name, strategy.with_boot)

    def request_on(instance_type: str) -> Request | None:
        on_it = job_on(job, instance_type)
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
            *processes_are_known(job, processes),
            *unsupported,
            *no_image,
            *no_longer_patched(job, image, today),
            *elsewhere,
            *preferences_agree(job, request, request_on),
            *no_lustre,
            *foreign_cluster_tag(job, cluster),
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
