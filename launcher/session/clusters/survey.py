"""What the end of a cluster would take, keep and free, and what stands in its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from launcher.aws.bounded import DaemonPool
from launcher.aws.bucket_contents import BucketContents, OnCount, count_contents
from launcher.aws.clients import Clients
from launcher.aws.stack_deletion import SKIPPED, deletion_events, fetch_deleted_stacks
from launcher.aws.stacks import DeployedStack, StackResource, fetch_stack
from launcher.cluster.stack_names import PARTS, stack_name
from launcher.cluster.templates import Template, references, resources
from launcher.provisioning.rest_costs import CostLine, rest_costs
from launcher.session.clusters.jobs import ClusterJob, unfinished_jobs
from launcher.session.clusters.kept_lustre import KeptLustre, fetch_kept_lustre
from launcher.session.clusters.show import not_deployed

BUCKET, FILE_SYSTEM, FUNCTION = "AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::Lambda::Function"


@dataclass(frozen=True, slots=True)
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
    going = [each.physical_id for stack in stacks for each in buckets_that_go(stack)]
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


def buckets_that_go(stack: DeployedStack) -> tuple[StackResource, ...]:
    """The buckets that are deleted with their stack."""
    return tuple(each for each in stack.of_type(BUCKET) if not each.kept)


def log_buckets_that_go(stack: DeployedStack) -> tuple[StackResource, ...]:
    """Those of them that S3 delivers the access logs of other buckets of the stack into."""
    targets = [
        resource.get("Properties", {}).get("LoggingConfiguration")
        for resource in resources(stack.template).values()
        if resource["Type"] == BUCKET
    ]
    ids = references(targets).resources
    return tuple(each for each in buckets_that_go(stack) if each.logical_id in ids)


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
