"""What `cdk deploy` would do to a cluster: the cluster file, what is deployed, and what stands in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher.aws.clients import Clients
from launcher.aws.stacks import DeployedStack, fetch_stacks
from launcher.cluster.changes import FieldChange, changes, deployed_cluster_file
from launcher.cluster.cluster_files import CLUSTERS, ClusterFileError, load_cluster
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.stack_names import stack_name
from launcher.cluster.update_effects import Policy
from launcher.failure_modes.model import Finding
from launcher.failure_modes.refusal import Refusal
from launcher.provisioning.addresses import ranges_to_keep
from launcher.provisioning.comparison import compare
from launcher.provisioning.model import Fate, StackChange, StackFate
from launcher.session.clusters.adopted import judge_adopted
from launcher.session.clusters.jobs import ClusterJob, unfinished_jobs
from launcher.session.clusters.synthesis import synthesize

_HITS_JOBS = frozenset({Policy.IDLE, Policy.REPLACES, Policy.REPLACES_DATA})


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What an update would do to a cluster.

    `fields` is None where it is not known with which file the cluster was deployed; `jobs` are those of the
    cluster that have not ended, None where nobody was to be asked, or AWS refused, which `notes` say.
    """

    chosen: str
    spec: ClusterSpec
    deployed: tuple[DeployedStack, ...]
    fields: tuple[FieldChange, ...] | None
    stacks: tuple[StackChange, ...]
    jobs: tuple[ClusterJob, ...] | None
    notes: tuple[str, ...]
    replace_data: bool
    adopted: tuple[Finding, ...] = ()
    """What speaks against subnets, groups or a file system that the cluster takes over."""

    @property
    def is_first(self) -> bool:
        """Whether nothing is deployed yet."""
        return not self.deployed

    @property
    def changes_something(self) -> bool:
        """Whether a deployment would do anything."""
        return any(
            each.fate not in (StackFate.UNCHANGED, StackFate.ORPHANED) for each in self.stacks
        ) or bool(self.fields)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """What forbids the deployment, in sentences; empty where nothing does."""
        return tuple(_obstacles(self))

    @property
    def command(self) -> str:
        """What deploys it."""
        asked = " -c replace_data=true" if self.replace_data else ""
        return f"npx cdk deploy --all -c cluster={self.chosen}{asked}"


def plan_update(
    chosen: str,
    clients: Clients,
    *,
    replace_data: bool = False,
    tell: Callable[[str], None] = lambda _: None,
    folder: Path = Path(),
) -> ClusterPlan:
    """Compare a cluster file with what is deployed of it; changes nothing.

    `chosen` is a name in the folder's `clusters`, or a path; `tell` hears what takes a while. Raises
    Refusal where the file or the CDK app has mistakes, AwsRefusal where AWS refuses.
    """
    try:
        spec = load_cluster(chosen, folder / CLUSTERS)
    except ClusterFileError as error:
        raise Refusal(str(error), "Correct the name or the cluster file.") from error
    there = fetch_stacks(clients("cloudformation", spec.region), spec.name)
    deployed = tuple(each for each in there if each.came_up)
    tell("synthesizing the cluster, which takes some seconds")
    wanted = synthesize(chosen, folder)
    notes: list[str] = []
    fields = _fields(spec, deployed, notes)
    stacks = compare({each.name: each.template for each in deployed}, wanted)
    notes += _kept_addresses(spec, deployed, stacks)
    jobs = None
    if deployed and (_hits_jobs(stacks) or any(each.policy in _HITS_JOBS for each in fields or ())):
        jobs = _unfinished(spec, deployed, clients, notes)
    adopted = judge_adopted(spec, clients, is_first=not deployed)
    notes += [f"{each.code} {each.message}" for each in adopted if not each.blocks]
    return ClusterPlan(chosen, spec, deployed, fields, stacks, jobs, tuple(notes), replace_data, adopted)


def _fields(
    spec: ClusterSpec, deployed: tuple[DeployedStack, ...], notes: list[str]
) -> tuple[FieldChange, ...] | None:
    if not deployed:
        return None
    manifest = next((each for each in deployed if each.name == stack_name(spec.name, "manifest")), None)
    try:
        file = None if manifest is None else deployed_cluster_file(manifest.template)
    except ValueError as error:
        file = None
        notes.append(f"The cluster file that was deployed cannot be read: {error}.")
    if file is None:
        notes.append(
            "It is not known with which cluster file this was deployed, as an earlier version of Slipway did "
            "not keep it: the fields are not compared, only the templates."
        )
        return None
    return tuple(changes(file, spec))


def _kept_addresses(
    spec: ClusterSpec, deployed: tuple[DeployedStack, ...], stacks: tuple[StackChange, ...]
) -> Iterator[str]:
    name = stack_name(spec.name, "network")
    template = next((each.template for each in deployed if each.name == name), None)
    change = next((each for each in stacks if each.name == name), None)
    ranges = ranges_to_keep(template, change) if template and change else None
    if ranges is not None:
        yield f"To keep the addresses that are deployed, write below `vpc`:  {ranges}"


def _hits_jobs(stacks: tuple[StackChange, ...]) -> bool:
    return any(
        each.fate in (Fate.REPLACED, Fate.DELETED, Fate.KEPT) for stack in stacks for each in stack.resources
    )


def _unfinished(
    spec: ClusterSpec, deployed: tuple[DeployedStack, ...], clients: Clients, notes: list[str]
) -> tuple[ClusterJob, ...] | None:
    try:
        return unfinished_jobs(spec.name, deployed, clients, spec.region)
    except Refusal as refusal:
        notes.append(f"Whether jobs of the cluster run could not be seen: {refusal.message}")
        return None


def _obstacles(plan: ClusterPlan) -> Iterator[str]:
    for finding in plan.adopted:
        if finding.blocks:
            yield f"{finding.code} {finding.message}; `launch explain {finding.code}` says what to do."
    for stack in plan.deployed:
        if stack.is_busy:
            yield f"{stack.name} is {stack.status}: wait until that has ended."
        if stack.is_stuck:
            yield f"{stack.name} is {stack.status}: continue its rollback, or delete it, in CloudFormation."
    for field in plan.fields or ():
        sentence = field.obstacle(replace_data=plan.replace_data)
        if sentence is not None:
            yield sentence
    for change in plan.stacks:
        lost = [each for each in change.resources if each.loses_data]
        if lost and not plan.replace_data:
            named = ", ".join(f"{each.place} ({each.fate.value})" for each in lost)
            yield f"{change.name}: data are lost or left behind: {named}."
        for export in change.blocked:
            what = "goes" if export.removed else "changes"
            users = " and ".join(export.importers)
            yield f"{change.name}: the export {export.name} {what}, but {users} would still use it."
        for sentence in change.collisions:
            yield f"{change.name}: {sentence}."


def to_json(plan: ClusterPlan) -> Mapping[str, Any]:
    """The plan in the shape that `--output json` prints."""
    return {
        "cluster": plan.spec.name,
        "region": plan.spec.region,
        "deployed": not plan.is_first,
        "allowed": not plan.obstacles,
        "fields": None if plan.fields is None else [each.to_json() for each in plan.fields],
        "stacks": [each.to_json() for each in plan.stacks],
        "jobs": None
        if plan.jobs is None
        else [{"name": each.name, "place": each.place} for each in plan.jobs],
        "obstacles": list(plan.obstacles),
        "notes": list(plan.notes),
        "command": plan.command,
    }
