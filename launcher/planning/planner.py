"""From a job and a cluster to the training plan. Calls nothing, uploads nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any

from launcher.cluster.instances import InstanceFacts, instance_facts
from launcher.cluster.manifest import Cluster
from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path, Stage, dotted
from launcher.failure_modes.registry import finds
from launcher.frozen import frozen
from launcher.jobs.load_job import check_folders, list_folders, replace_folders
from launcher.jobs.script_inputs import DEFAULT_CHECKPOINT_PATH
from launcher.jobs.specification import JobSpec
from launcher.planning.finished_request import make_job_name
from launcher.planning.image_choice import (
    VersionChoice,
    check_alternatives,
    check_patches,
    choose_image,
    choose_version,
    job_image_software,
    job_on_type,
)
from launcher.planning.job_cost import plan_budget
from launcher.planning.request import (
    build_request,
    build_tuning_request,
    check_request,
    check_tuning,
    forbids_request,
)
from launcher.planning.request_view import Request
from launcher.planning.settings import choose_settings, job_environment
from launcher.planning.show_plan import requirements_for_boot
from launcher.planning.strategies.catalogue import strategy_of
from launcher.planning.strategies.strategy import (
    LaunchStrategy,
    StartParameters,
    check_framework,
    check_processes,
    world_size,
)
from launcher.planning.training_plan import (
    PLACEHOLDER_CODE,
    Destination,
    Operation,
    PlannedCheckpoints,
    PlannedController,
    PlannedDebugger,
    Setting,
    SourcePackage,
    TrainingPlan,
    check_cluster_tag,
    check_lustre,
    plan_checkpoints,
    plan_debugger,
    resolve_destination,
)
from launcher.source.packaging import package_digest
from launcher.source.tree import SourceTree


@frozen
class _Inputs:
    """What a job is planned with, the same on each of its instance types."""

    cluster: Cluster | None
    unique: str
    source: SourceTree
    session_region: str | None
    today: date


@frozen
class _Draft:
    """All that is decided of a job before its request is built.

    `job` has the version that was chosen. `unsupported`, `no_image` and `no_lustre` are what was found to
    keep the job, its image or its file system from being what it asks for.
    """

    name: str
    job: JobSpec
    version_choice: VersionChoice | None
    facts: InstanceFacts | None
    strategy: LaunchStrategy
    destination: Destination
    checkpoints: PlannedCheckpoints | None
    debugger: PlannedDebugger
    processes: int | None
    image: str | None
    unsupported: tuple[Finding, ...]
    no_image: tuple[Finding, ...]
    no_lustre: tuple[Finding, ...]


@frozen
class _Built:
    """The request of a draft with what goes along with it: nothing where no request can be built."""

    request: Request | None = None
    package: SourcePackage | None = None
    settings: tuple[Setting, ...] = ()


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
    inputs = _Inputs(cluster, unique, source, session_region, today)
    draft = _make_draft(job, inputs)
    built = _build(draft, source)
    operation: Operation = "CreateHyperParameterTuningJob" if job.tuning else "CreateTrainingJob"
    return TrainingPlan(
        job=draft.job.resolved(draft.processes),
        spec=draft.job,
        version_choice=draft.version_choice,
        region=draft.destination.region,
        request=built.request,
        package=built.package,
        findings=tuple(_find_problems(draft, built.request, operation, inputs)),
        placeholders=draft.destination.placeholders,
        settings=built.settings,
        processes_per_host=draft.processes,
        world_size=None if draft.processes is None else world_size(draft.job, draft.processes),
        with_boot=draft.strategy.with_boot,
        checkpoints=draft.checkpoints,
        debugger=draft.debugger,
        operation=operation,
        queue_arn=cluster.queue_arn if cluster else None,
        controller=_plan_controller(cluster),
        bucket_owners=cluster.bucket_owners if cluster else {},
    )


def _plan_controller(cluster: Cluster | None) -> PlannedController | None:
    """What the cluster's controller goes on with; None without one."""
    if cluster is None or cluster.controller_arn is None:
        return None
    return PlannedController(cluster.role_arn, cluster.buckets.code, cluster.buckets.checkpoints)


def _make_draft(job: JobSpec, inputs: _Inputs) -> _Draft:
    """Decide everything about a job that its request consists of."""
    name = make_job_name(job.name, inputs.unique)
    facts = instance_facts(job.resources.instance_type)
    strategy = strategy_of(job)
    digest = inputs.source.digest
    code = PLACEHOLDER_CODE if digest is None else package_digest(digest, strategy.archive_name)
    destination = resolve_destination(job, inputs.cluster, inputs.session_region, code)
    job, version_choice = choose_version(job, strategy, destination.region, inputs.today)
    checkpoints = plan_checkpoints(job, inputs.cluster, name)
    processes = strategy.processes_per_host(job, facts)
    image, no_image = choose_image(job, facts, strategy, destination.region)
    return _Draft(
        name=name,
        job=job,
        version_choice=version_choice,
        facts=facts,
        strategy=strategy,
        destination=destination,
        checkpoints=checkpoints,
        debugger=plan_debugger(job, checkpoints, destination.region),
        processes=processes,
        image=image,
        unsupported=(
            *check_folders(job),
            *check_tuning(job, name),
            *check_framework(job),
            *strategy.find_unsupported(job, facts, processes),
        ),
        no_image=tuple(no_image),
        no_lustre=tuple(check_lustre(job, checkpoints, destination, inputs.cluster)),
    )


def _build(draft: _Draft, source: SourceTree) -> _Built:
    """Build the request of a draft, where it has all that a request needs and every value makes sense."""
    if (
        not draft.processes
        or not draft.image
        or draft.no_lustre
        or any(map(forbids_request, draft.unsupported))
    ):
        return _Built()
    job, strategy, code = draft.job, draft.strategy, draft.destination.code
    budget = plan_budget(job, draft.destination.region)
    chosen = choose_settings(
        job,
        draft.facts,
        draft.processes,
        with_boot=strategy.with_boot,
        source_digest=source.digest,
        checkpoints=draft.checkpoints,
        software=job_image_software(job, draft.facts),
        budget=budget,
    )
    own_checkpoints = draft.checkpoints.local_path if draft.checkpoints else DEFAULT_CHECKPOINT_PATH
    folders = list_folders(job, own_checkpoints)
    archive = f"{code}/{strategy.archive_name}"
    start = StartParameters(draft.name, draft.destination.region, archive, draft.processes, folders)
    environment = job_environment(job.environment, chosen)
    request = build_request(
        job,
        job_name=draft.name,
        image=draft.image,
        entry=strategy.container_command(job, draft.processes, requirements_for_boot(job.code, source)),
        hyperparameters=strategy.hyperparameters(job, start),
        # What the boot starts finds them by itself, on AWS and elsewhere.
        environment=environment if strategy.with_boot else replace_folders(environment, folders),
        destination=draft.destination,
        checkpoints=draft.checkpoints,
        debugger=draft.debugger,
        facts=draft.facts,
        budget=budget,
    )
    if job.tuning is not None:
        request = build_tuning_request(job.tuning, request)
    package = SourcePackage(source, code, strategy.archive_name, strategy.with_boot)
    return _Built(request, package, tuple(chosen))


def _find_problems(
    draft: _Draft, request: Request | None, operation: Operation, inputs: _Inputs
) -> Iterator[Finding]:
    """Everything that was found of a job on the way to its plan, in the order in which it is shown."""
    job, region = draft.job, draft.destination.region

    def request_on(instance_type: str) -> Request | None:
        return _build(_make_draft(job_on_type(job, instance_type), inputs), inputs.source).request

    yield from draft.destination.findings
    yield from check_processes(job, draft.processes)
    yield from draft.unsupported
    yield from draft.no_image
    yield from check_patches(job, draft.image, inputs.today)
    yield from check_alternatives(job, draft.strategy, region, [*draft.unsupported, *draft.no_image])
    yield from check_preferences(job, request, request_on)
    yield from draft.no_lustre
    yield from check_cluster_tag(job, inputs.cluster)
    if request is not None:
        yield from check_request(operation, request)


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
