"""The end of a cluster: what it would take, keep and free, its stacks one after the other, and what is left.

Everything that is done here can be done again: killed in the middle, it goes on where it stopped.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from launcher.account.facts import parse_file_system
from launcher.account.questions.ask_network import fetch_subnets
from launcher.account.questions.ask_storage import describe_file_system
from launcher.aws.bounded_calls import DaemonPool
from launcher.aws.buckets import (
    BucketContents,
    OnCount,
    count_contents,
    deny_writes,
    empty_bucket,
    stop_access_logs,
)
from launcher.aws.clients import Clients
from launcher.aws.stacks import (
    DELETING,
    FAILED,
    GONE,
    SKIPPED,
    DeletionEvent,
    DeployedStack,
    StackResource,
    delete_function_logs,
    delete_stack,
    deletion_events,
    fetch_deleted_stacks,
    fetch_stack,
    fetch_tagged,
    kept_ids,
    unprotect,
    wait_until_deleted,
)
from launcher.cluster.files import Template, references, resources
from launcher.cluster.manifest import Lustre
from launcher.cluster.names import PARTS, stack_name
from launcher.failure_modes.model import AwsRefusal
from launcher.frozen import frozen
from launcher.provisioning.rest_costs import CostLine, rest_costs
from launcher.session.plan_update import ClusterJob, unfinished_jobs
from launcher.session.show_cluster import not_deployed

TRIES = 3
"""How often a stack is deleted whose buckets are not empty again, as access logs come late."""

_TELL_EVERY = 10_000
"""Deleted objects of a bucket from one message to the next."""

Tell = Callable[[str], None]
"""Called with a sentence for each thing that is done, and while something takes long."""


@frozen
class Aftermath:
    """What there is when the stacks are gone: ARNs of what was kept on purpose, and of what is left over.

    Where its tags could not be read, `unseen` says why, and both are empty.
    """

    kept: tuple[str, ...] = ()
    left_over: tuple[str, ...] = ()
    unseen: str | None = None


def destroy(
    survey: Survey, clients: Clients, *, tell: Tell, sleep: Callable[[float], None] = time.sleep
) -> Aftermath:
    """Delete the stacks of a cluster that was looked at, the manifest's first, and see what is left.

    What the templates keep is kept; buckets that go are emptied. Raises AwsRefusal where AWS refuses, with
    CloudFormation's reason for each resource that could not be deleted.
    """
    for stack in survey.stacks:
        _delete(stack, clients, survey.region, tell, sleep)
    return collect_leftovers(survey, clients, tell)


def collect_leftovers(survey: Survey, clients: Clients, tell: Tell) -> Aftermath:
    """Delete the logs of the functions that are gone, and find what still carries the cluster's tag.

    Stacks that an earlier run deleted count as well, for the 90 days that CloudFormation knows them.
    """
    region = survey.region
    cloudformation = clients("cloudformation", region)
    stack_ids = _stacks_that_are_gone(survey, cloudformation)
    events = [event for each in stack_ids for event in deletion_events(cloudformation, each)]
    functions = {each.physical_id for each in events if each.type == FUNCTION and each.status == GONE}
    for function in sorted(functions.union(survey.functions)):
        if delete_function_logs(clients("logs", region), function):
            tell(f"deleted the log group of the function {function}")
    try:
        tagged = fetch_tagged(clients("resourcegroupstaggingapi", region), survey.name)
    except AwsRefusal as refusal:
        return Aftermath(unseen=f"{refusal.message} {refusal.remedy}")
    kept = {each.physical_id for each in survey.kept}
    kept |= {id_ for each in stack_ids for id_ in kept_ids(cloudformation, each)}
    gone = {each.physical_id for each in events if each.status == GONE} - kept
    there = [arn for arn in tagged if not _is_among(arn, gone) and not _ENDED_JOB.search(arn)]
    return Aftermath(
        tuple(arn for arn in there if _is_among(arn, kept)),
        tuple(arn for arn in there if not _is_among(arn, kept)),
    )


def _delete(
    stack: DeployedStack, clients: Clients, region: str, tell: Tell, sleep: Callable[[float], None]
) -> None:
    cloudformation = clients("cloudformation", region)
    if stack.is_protected:
        unprotect(cloudformation, stack.id)
        tell(f"{stack.name} is no longer protected from deletion")
    status = stack.status

    def gone(resources: int) -> None:
        tell(f"deleting {stack.name}: {resources} resources gone")

    for _ in range(TRIES):
        if status != DELETING:
            _empty(stack, clients("s3", region), tell)
            tell(f"deleting {stack.name}")
            delete_stack(cloudformation, stack.id)
        status = wait_until_deleted(cloudformation, stack.id, sleep, gone)
        if status == GONE:
            tell(f"deleted {stack.name}")
            return
        failures = [each for each in deletion_events(cloudformation, stack.id) if each.status == FAILED]
        if not _are_filled_buckets(failures):
            break
        tell(f"{stack.name}: a bucket was written into meanwhile; emptying it again")
    raise _not_deleted(stack, status, failures)


def _empty(stack: DeployedStack, s3: Any, tell: Tell) -> None:
    """Empty the buckets of a stack, all at once; first nobody delivers access logs any more."""
    logs = [each.physical_id for each in deleted_log_buckets(stack)]
    others = [each.physical_id for each in deleted_buckets(stack) if each.physical_id not in logs]
    pool = DaemonPool(max(len(logs) + len(others), 1))

    def on_each(buckets: list[str], do: Callable[[str], None]) -> None:
        doing: list[Future[None]] = [pool.submit(_do_unless_gone, s3, do, each) for each in buckets]
        for each in doing:
            each.result()

    def emptied(bucket: str) -> None:
        told = 0

        def count(done: int) -> None:
            nonlocal told
            if done - told >= _TELL_EVERY:
                told = done
                tell(f"{bucket}: {done:,} versions deleted")

        empty_bucket(s3, bucket, count)
        tell(f"emptied {bucket}")

    on_each(others, lambda bucket: stop_access_logs(s3, bucket))
    on_each(logs, lambda bucket: deny_writes(s3, bucket))
    on_each([*others, *logs], emptied)


def _do_unless_gone(s3: Any, do: Callable[[str], None], bucket: str) -> None:
    try:
        do(bucket)
    except AwsRefusal as refusal:
        # An earlier run, or somebody, deleted it already.
        response = getattr(refusal.__cause__, "response", {})
        if response.get("Error", {}).get("Code") != "NoSuchBucket":
            raise


def _are_filled_buckets(failures: list[DeletionEvent]) -> bool:
    return bool(failures) and all(
        each.type == BUCKET and "not empty" in each.reason.lower() for each in failures
    )


def _not_deleted(stack: DeployedStack, status: str, failures: list[DeletionEvent]) -> AwsRefusal:
    told = "\n".join(f"  {each.type} {each.physical_id}: {each.reason}" for each in failures)
    return AwsRefusal(
        f"the stack {stack.name} could not be deleted; it is {status}."
        + (f" What CloudFormation says:\n{told}" if told else f" {stack.reason}"),
        "Take away what stands in the way, then run this again: it goes on where it stopped.",
    )


def _stacks_that_are_gone(survey: Survey, cloudformation: Any) -> list[str]:
    """The ARNs of all stacks of the cluster that were deleted, of earlier clusters of its name too.

    What an earlier one kept is there on purpose, and what it deleted may be told for hours.
    """
    names = {stack_name(survey.name, part) for part in PARTS}
    return [id_ for ids in fetch_deleted_stacks(cloudformation, names).values() for id_ in ids]


_ENDED_JOB = re.compile(r":sagemaker:[^:]*:\d*:(training-job|hyper-parameter-tuning-job)/")
"""What SageMaker keeps of a job for good, with the cluster's tag: it costs nothing, nobody can delete it."""


def _is_among(arn: str, ids: set[str]) -> bool:
    return any(arn == id_ or arn.endswith((f":{id_}", f"/{id_}")) for id_ in ids if id_)


# What the end of a cluster would take, keep and free, and what stands in its way.


BUCKET, FILE_SYSTEM, FUNCTION = "AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::Lambda::Function"


@frozen
class Survey:
    """A cluster before it is destroyed.

    `stacks` are in the order in which they are deleted. `contents` are of the buckets that go, by name; a
    bucket that is gone already is not in it. `kept_lustre` is the file system that stays, or that stayed when
    an earlier run deleted its stack, if one does.
    """

    name: str
    region: str
    stacks: tuple[DeployedStack, ...]
    contents: Mapping[str, BucketContents]
    jobs: tuple[ClusterJob, ...]
    frees: tuple[CostLine, ...]
    keeps: tuple[CostLine, ...]
    kept_lustre: KeptLustre | None

    @property
    def kept(self) -> tuple[StackResource, ...]:
        """What outlives its stack."""
        return tuple(each for stack in self.stacks for each in stack.resources if each.kept and each.is_there)

    @property
    def busy(self) -> tuple[DeployedStack, ...]:
        """The stacks that something else is being done to, such as an update."""
        return tuple(each for each in self.stacks if each.is_busy and not each.status.startswith("DELETE_"))

    @property
    def functions(self) -> tuple[str, ...]:
        """The Lambda functions, by name."""
        return tuple(each.physical_id for stack in self.stacks for each in stack.of_type(FUNCTION))


def survey_cluster(name: str, clients: Clients, region: str, on_count: OnCount = lambda _: None) -> Survey:
    """Look at what destroying a cluster would do; changes nothing.

    `on_count` is called with how many objects were counted so far, in all buckets together. Raises Refusal
    where the region has no stack of it, nor had one in the last 90 days,
    AwsRefusal where AWS refuses anything of it, or cannot be reached: nothing is destroyed unseen.
    """
    cloudformation = clients("cloudformation", region)
    pool = DaemonPool(len(PARTS))
    asked = [pool.submit(fetch_stack, cloudformation, stack_name(name, part)) for part in reversed(PARTS)]
    stacks = tuple(found for each in asked if (found := each.result()) is not None)
    kept = {each.name: [one for one in each.resources if one.kept and one.is_there] for each in stacks}
    storage, network = stack_name(name, "storage"), stack_name(name, "network")
    if missing := {storage, network} - kept.keys():
        deleted = fetch_deleted_stacks(cloudformation, missing)
        if not stacks and not deleted:
            raise not_deployed(name, region)
        kept |= {each: _deleted_and_kept(cloudformation, deleted.get(each, ())) for each in missing}
    going = [each.physical_id for stack in stacks for each in deleted_buckets(stack)]
    return Survey(
        name,
        region,
        stacks,
        _contents(clients("s3", region), going, on_count),
        unfinished_jobs(name, stacks, clients, region) if stacks else (),
        rest_costs([_part_of(stack, kept=False) for stack in stacks], region),
        rest_costs([_part_of(stack, kept=True) for stack in stacks], region),
        fetch_kept_lustre(kept[storage], kept[network], clients, region),
    )


def deleted_buckets(stack: DeployedStack) -> tuple[StackResource, ...]:
    """The buckets that are deleted with their stack."""
    return tuple(each for each in stack.of_type(BUCKET) if not each.kept)


def deleted_log_buckets(stack: DeployedStack) -> tuple[StackResource, ...]:
    """Those of them that S3 delivers the access logs of other buckets of the stack into."""
    targets = [
        resource.get("Properties", {}).get("LoggingConfiguration")
        for resource in resources(stack.template).values()
        if resource["Type"] == BUCKET
    ]
    ids = references(targets).resources
    return tuple(each for each in deleted_buckets(stack) if each.logical_id in ids)


def _contents(s3: Any, buckets: Sequence[str], on_count: OnCount) -> dict[str, BucketContents]:
    counts: dict[str, int] = {}

    def count(bucket: str) -> BucketContents | None:
        def counted(number: int) -> None:
            counts[bucket] = number
            on_count(sum(list(counts.values())))

        return count_contents(s3, bucket, counted)

    pool = DaemonPool(max(len(buckets), 1))
    counting: dict[str, Future[BucketContents | None]] = {each: pool.submit(count, each) for each in buckets}
    return {name: found for name, each in counting.items() if (found := each.result()) is not None}


def _part_of(stack: DeployedStack, *, kept: bool) -> Template:
    """Of a template what is there, and stays when its stack is deleted or goes with it."""
    names = {each.logical_id for each in stack.resources if each.is_there and each.kept == kept}
    declared = resources(stack.template)
    return {"Resources": {name: each for name, each in declared.items() if name in names}}


def _deleted_and_kept(cloudformation: Any, stack_ids: Sequence[str]) -> list[StackResource]:
    """What outlived the last of the stacks of a name that are gone."""
    events = deletion_events(cloudformation, stack_ids[0]) if stack_ids else ()
    return [
        StackResource(each.logical_id, each.type, each.physical_id, each.status, each.reason, kept=True)
        for each in events
        if each.status == SKIPPED
    ]


# A file system that outlives its cluster, and what a cluster file says to use it again.


_GROUP = "AWS::EC2::SecurityGroup"


@frozen
class KeptLustre:
    """A file system that stays, in full, and the VPC and the hosts' group that stay with it.

    Both are empty where the VPC was there before the cluster: its file names it already.
    """

    lustre: Lustre
    vpc_id: str
    hosts_group_id: str

    @property
    def sections(self) -> dict[str, Any]:
        """The sections of a cluster file with which it is used again."""
        found: dict[str, Any] = {"lustre": {"existing": self.lustre.model_dump()}}
        if self.vpc_id:
            subnet = {"id": self.lustre.subnet_id, "availability_zone": self.lustre.availability_zone}
            existing = {"vpc_id": self.vpc_id, "subnets": [subnet], "security_group_id": self.hosts_group_id}
            found["vpc"] = {"existing": existing}
        return found

    @property
    def lines(self) -> tuple[str, ...]:
        """The same as YAML, a line for each section."""
        return tuple(f"{name}: {_flow(value)}" for name, value in self.sections.items())


def fetch_kept_lustre(
    storage: Iterable[StackResource], network: Iterable[StackResource], clients: Clients, region: str
) -> KeptLustre | None:
    """The file system among what outlives the storage stack; None where none does, or it is gone since.

    `network` is what outlives the network stack. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    kept = {each.type: each.physical_id for each in storage}
    around = {each.type: each.physical_id for each in network}
    file_system, group = kept.get("AWS::FSx::FileSystem"), kept.get(_GROUP)
    described = describe_file_system(clients("fsx", region), file_system) if file_system else None
    if described is None or group is None:
        return None
    found = parse_file_system(described)
    subnets = fetch_subnets(clients("ec2", region), [found.subnet_id] if found.subnet_id else [])
    if not found.mount_name or not subnets:
        return None
    lustre = Lustre(
        id=found.id,
        mount_name=found.mount_name,
        subnet_id=subnets[0].id,
        availability_zone=subnets[0].availability_zone,
        security_group_id=group,
    )
    return KeptLustre(lustre, around.get("AWS::EC2::VPC", ""), around.get(_GROUP, ""))


def _flow(value: Any) -> str:
    """A value in one line of YAML, with all texts quoted: a mount name such as 12e45678 would be a number."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{name}: {_flow(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)
