"""What `cdk deploy` would do to a cluster: the cluster file, what is deployed, and what stands in the way.

The templates that are wanted are what the CDK app of the working directory synthesizes. What the cluster
takes over is judged before the deployment, by the rules that judge it before every job.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.account.facts import RunningJob
from launcher.account.questions.ask_capacity import fetch_running_jobs
from launcher.account.questions.gather import gather_network
from launcher.aws.clients import Clients
from launcher.aws.lookups import fetch_manifest
from launcher.aws.stacks import DeployedStack, fetch_stacks
from launcher.backends.interface import JobQuery
from launcher.cluster.files import CLUSTERS, ClusterFileError, load_cluster, read_templates
from launcher.cluster.instances import instance_facts
from launcher.cluster.names import stack_name
from launcher.cluster.specification import ClusterSpec
from launcher.cluster.updates import FieldChange, Policy, changes, deployed_cluster_file
from launcher.failure_modes.model import Finding, Refusal
from launcher.frozen import frozen
from launcher.jobs.specification import JobSpec
from launcher.planning.request import build_network_request
from launcher.planning.request_view import RequestView
from launcher.provisioning.updates import Fate, StackChange, StackFate, compare, ranges_to_keep
from launcher.rules.live.network_rules import (
    acls_let_https_pass,
    groups_exist,
    hosts_admit_each_other,
    hosts_may_send_to_each_other,
    hosts_reach_aws,
    network_is_one,
    subnets_exist,
)
from launcher.rules.live.storage_rules import file_system_is_available, lustre_ports_are_open
from launcher.rules.live.subject import LiveSubject
from launcher.session.account_checks import wanted_facts
from launcher.session.find_jobs import queue_backend
from launcher.session.managed.show_run import WAITING, list_runs

_HITS_JOBS = frozenset({Policy.IDLE, Policy.REPLACES, Policy.REPLACES_DATA})


@frozen
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
        jobs = _unfinished_or_note(spec, deployed, clients, notes)
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


def _unfinished_or_note(
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


# The templates that a cluster file stands for now.


LONGEST_SECONDS = 300
"""An app that takes longer hangs; a large cluster takes some seconds."""

_LINES = 40
"""Of what a failed app printed, from its end."""


def synthesize(chosen: str, folder: Path = Path()) -> dict[str, Mapping[str, Any]]:
    """The templates by the names of their stacks, in the order of deployment.

    Runs the app that the folder's cdk.json names, as the CDK command line does, with the context
    `cluster`. Raises Refusal where there is no such file or the app fails, with what it printed.
    """
    settings = _settings(folder)
    app = str(settings.get("app") or "")
    if not app:
        raise Refusal(f"{folder / 'cdk.json'} names no app.", 'Give it `"app": "python3 app.py"`.')
    with tempfile.TemporaryDirectory(prefix="slipway-plan-") as output:
        _run(app, folder, _environment(_context(settings, chosen, folder), output))
        try:
            return dict(read_templates(Path(output)))
        except (OSError, ValueError, KeyError) as error:
            raise Refusal(
                f"the CDK app {app!r} wrote no stacks: {error}.", "Try it with `npx cdk synth`."
            ) from error


def _settings(folder: Path) -> Mapping[str, Any]:
    file = folder / "cdk.json"
    try:
        settings = json.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        raise Refusal(
            f"there is no cdk.json in {folder.resolve()}, so it is not known what would be deployed.",
            "Call this where you call `cdk deploy`: in the checkout of Slipway.",
        ) from None
    except (OSError, ValueError) as error:
        raise Refusal(f"{file} cannot be read: {error}.", "Correct it.") from error
    if not isinstance(settings, dict):
        raise Refusal(f"{file} holds no mapping.", "Correct it.")
    return settings


def _context(settings: Mapping[str, Any], chosen: str, folder: Path) -> dict[str, Any]:
    """The context as the CDK command line puts it together, for a call with `-c cluster=`."""
    looked_up = folder / "cdk.context.json"
    kept = json.loads(looked_up.read_text("utf-8")) if looked_up.is_file() else {}
    # The command line asks for these paths; without them resources would have no readable names.
    return {"aws:cdk:enable-path-metadata": True, **kept, **settings.get("context", {}), "cluster": chosen}


def _environment(context: Mapping[str, Any], output: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "CDK_OUTDIR": output,
        "CDK_CONTEXT_JSON": json.dumps(context),
        "CDK_VALIDATION": "true",
    }
    # With an account the app would itself ask AWS what is deployed, and refuse instead of being compared.
    environment.pop("CDK_DEFAULT_ACCOUNT", None)
    if importlib.util.find_spec("aws_cdk") is not None:
        # The `python3` of cdk.json is this one, whether its environment was activated or not.
        here = str(Path(sys.executable).parent)
        environment["PATH"] = os.pathsep.join([here, environment.get("PATH", os.defpath)])
    return environment


def _run(app: str, folder: Path, environment: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            shlex.split(app),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LONGEST_SECONDS,
        )
    except (OSError, ValueError) as error:
        raise Refusal(f"the CDK app {app!r} cannot be started: {error}.", "Correct cdk.json.") from error
    except subprocess.TimeoutExpired:
        raise Refusal(
            f"the CDK app {app!r} did not end within {LONGEST_SECONDS} s.", "Try it with `npx cdk synth`."
        ) from None
    if done.returncode != 0:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-_LINES:])
        raise Refusal(
            f"the CDK app {app!r} failed with exit code {done.returncode}:\n{said}",
            "Correct what it says; `npx cdk synth` would end in the same way.",
        )


# What a cluster takes over, judged in the account.


_OF_THE_NETWORK = (
    subnets_exist,
    groups_exist,
    hosts_admit_each_other,
    hosts_may_send_to_each_other,
    network_is_one,
    hosts_reach_aws,
    acls_let_https_pass,
)
_OF_THE_FILE_SYSTEM = (file_system_is_available, lustre_ports_are_open)


def judge_adopted(spec: ClusterSpec, clients: Clients, *, is_first: bool) -> tuple[Finding, ...]:
    """What the live rules find on subnets, groups and a file system that a cluster takes over.

    A group that the cluster is yet to make cannot be judged; that of a deployed one is read from its
    manifest, unless `is_first`. What could not be seen is a finding that says so. Raises Unreachable or
    UnusableSession where nothing could be asked.
    """
    existing = spec.vpc.existing
    subnet_ids = [each.id for each in existing.subnets] if existing else []
    group_ids = [existing.security_group_id] if existing and existing.security_group_id else []
    file_system = spec.lustre.existing if spec.lustre else None
    if not subnet_ids and file_system is None:
        return ()
    if not is_first and (not subnet_ids or not group_ids):
        try:
            manifest = fetch_manifest(clients("ssm", spec.region), spec.name)
        except Refusal:
            manifest = None  # half deployed: there is nothing of it to judge yet
        if manifest is not None:
            subnet_ids = subnet_ids or [each.id for each in manifest.subnets]
            group_ids = group_ids or list(manifest.security_group_ids)
    request = _request(spec, subnet_ids, group_ids, file_system.id if file_system else None)
    rules = (*(_OF_THE_NETWORK if existing else ()), *(_OF_THE_FILE_SYSTEM if file_system else ()))
    wanted = wanted_facts(request, spec.region)
    subject = LiveSubject(
        job=_JOB,
        request=request,
        facts=instance_facts(wanted.instance_type),
        account=gather_network(clients, wanted),
    )
    return tuple(finding for rule in rules for finding in rule(subject))


def _request(
    spec: ClusterSpec, subnet_ids: list[str], group_ids: list[str], file_system_id: str | None
) -> RequestView:
    """What all planned hosts together would ask for, as far as the rules look at it."""
    largest = max(spec.hosts, key=lambda each: each.count)
    return RequestView(
        build_network_request(
            name=spec.name,
            role_arn=(spec.role.existing if spec.role else None) or "",
            instance_type=largest.instance_type,
            hosts=largest.count,
            subnet_ids=subnet_ids,
            security_group_ids=group_ids,
            file_system_id=file_system_id,
        )
    )


_JOB = JobSpec.model_validate(
    {
        "name": "any",
        "code": {"entry_point": "train.py"},
        "image": "any",
        "resources": {"instance_type": "ml.m5.xlarge"},
    }
)
"""The rules here look at no field of a job file."""


# The jobs of a cluster that have not ended, by what they carry and what they use of it.


@frozen
class ClusterJob:
    """A job that has not ended: its name, and where it is (`running` on SageMaker, `queued` in the queue)."""

    name: str
    place: str


def unfinished_jobs(
    name: str, stacks: Sequence[DeployedStack], clients: Clients, region: str
) -> tuple[ClusterJob, ...]:
    """The jobs that carry a cluster's tag, use a role or a subnet of its stacks, or wait in its queue; and
    the managed runs of which another attempt is to start.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    return (*_unfinished_queued(name, stacks, clients, region), *_waiting_runs(stacks, clients, region))


def _waiting_runs(stacks: Sequence[DeployedStack], clients: Clients, region: str) -> Iterator[ClusterJob]:
    if not any(stack.of_type("AWS::SQS::Queue") for stack in stacks):
        return  # Without its controller's queue nobody goes on with them.
    buckets = [each.physical_id for stack in stacks for each in stack.of_type("AWS::S3::Bucket")]
    for bucket in buckets:
        for run in list_runs(clients("s3", region), bucket):
            if run.state == WAITING:
                yield ClusterJob(run.first, "a managed run that waits for its next attempt")


def _unfinished_queued(
    name: str, stacks: Sequence[DeployedStack], clients: Clients, region: str
) -> Iterator[ClusterJob]:
    roles = {each.physical_id for stack in stacks for each in stack.of_type("AWS::IAM::Role")}
    subnets = {each.physical_id for stack in stacks for each in stack.of_type("AWS::EC2::Subnet")}

    def is_ours(job: RunningJob) -> bool:
        role = (job.role_arn or "").rpartition("/")[2]
        return job.cluster == name or role in roles or not subnets.isdisjoint(job.subnet_ids)

    running = [each.name for each in fetch_running_jobs(clients("sagemaker", region)) if is_ours(each)]
    yield from (ClusterJob(each, "running") for each in running)
    queues = [each.physical_id for stack in stacks for each in stack.of_type("AWS::Batch::JobQueue")]
    for queue in queues:
        for queued in queue_backend(clients, queue, region).jobs(JobQuery()):
            if not queued.state.is_final and queued.name not in running:
                yield ClusterJob(queued.name, "queued")
