"""The things of a cluster that a person asks about: what each is called, and how it is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from launcher.account.file_system import parse_file_system
from launcher.account.questions.asking import Answers, Question, Service
from launcher.account.questions.file_system import describe_file_system
from launcher.account.questions.identities import fetch_role
from launcher.account.questions.network import fetch_subnets
from launcher.account.questions.security_groups import fetch_security_groups
from launcher.account.questions.storage import fetch_bucket
from launcher.account.unverified import Unverified
from launcher.aws.presence import fetch_key_state, fetch_queue_state, fetch_subscribers
from launcher.aws.stacks import DeployedStack
from launcher.cluster.manifest import Cluster


class Presence(StrEnum):
    """How a thing is."""

    THERE = "there"
    CHANGING = "changing"
    FAILED = "failed"
    MISSING = "missing"
    UNVERIFIED = "unverified"


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing of a cluster: its kind, what it is for, its id, how it is, and more about that.

    `adopted` says that none of the cluster's stacks made it.
    """

    kind: str
    purpose: str
    id: str
    presence: Presence
    detail: str
    adopted: bool


@dataclass(frozen=True, slots=True)
class NamedThing:
    """A thing that is to be looked at."""

    kind: str
    purpose: str
    id: str


def named_things(manifest: Cluster | None, stacks: Iterable[DeployedStack]) -> list[NamedThing]:
    """What the manifest names, and what the stacks hold beside it, each once."""
    named = {each.id: each for each in _of_manifest(manifest)} if manifest else {}
    for stack in stacks:
        for resource in stack.resources:
            kind = _KINDS.get(resource.type)
            # The subnet of the NAT gateway is no place for jobs, and not in the manifest.
            if not kind or not resource.is_there or (manifest and kind == "subnet"):
                continue
            id_ = resource.physical_id
            if not any(id_ in (known, known.rpartition("/")[2]) for known in named):
                named[id_] = NamedThing(kind, _PURPOSES.get(resource.logical_id[:-8], ""), id_)
    order = [*_KINDS.values(), "role"]
    return sorted(named.values(), key=lambda thing: order.index(thing.kind))


def questions_about(things: Sequence[NamedThing], region: str) -> list[Question[Any]]:
    """What is to be asked to know how the things are."""
    return list(dict.fromkeys(_question(thing, things, region) for thing in things))


def looked_at(
    things: Sequence[NamedThing], region: str, answers: Answers, made: frozenset[str]
) -> tuple[Thing, ...]:
    """How each thing is, by the answers; `made` holds the ids of what the cluster's stacks made."""
    return tuple(_looked_at(thing, answers.of(_question(thing, things, region)), made) for thing in things)


def _looked_at(thing: NamedThing, answer: Any, made: frozenset[str]) -> Thing:
    if isinstance(answer, Unverified):
        presence, detail = Presence.UNVERIFIED, answer.reason
    else:
        presence, detail = _READERS[thing.kind](thing.id, answer)
    adopted = not any(id_ in made for id_ in (thing.id, thing.id.rpartition("/")[2]))
    return Thing(thing.kind, thing.purpose, thing.id, presence, detail, adopted)


def _of_manifest(manifest: Cluster) -> Iterator[NamedThing]:
    for subnet in manifest.subnets:
        yield NamedThing("subnet", "hosts", subnet.id)
    for group in manifest.security_group_ids:
        yield NamedThing("security group", "hosts", group)
    if manifest.lustre:
        yield NamedThing("security group", "Lustre", manifest.lustre.security_group_id)
        yield NamedThing("file system", "Lustre", manifest.lustre.id)
    for purpose in ("code", "checkpoints", "output"):
        yield NamedThing("bucket", purpose, getattr(manifest.buckets, purpose))
    if manifest.kms_key_arn:
        yield NamedThing("key", "data", manifest.kms_key_arn)
    if manifest.queue_arn:
        yield NamedThing("queue", "jobs", manifest.queue_arn)
    if manifest.topic_arn:
        yield NamedThing("topic", "notifications", manifest.topic_arn)
    yield NamedThing("role", "jobs", manifest.role_arn)


_KINDS = {
    "AWS::EC2::Subnet": "subnet",
    "AWS::EC2::SecurityGroup": "security group",
    "AWS::FSx::FileSystem": "file system",
    "AWS::S3::Bucket": "bucket",
    "AWS::KMS::Key": "key",
    "AWS::Batch::JobQueue": "queue",
    "AWS::SNS::Topic": "topic",
}
"""The kinds of things in the order in which they are told, by the type of resource."""

_PURPOSES = {
    "BucketsAccessLogs": "access logs",
    "BucketsCode": "code",
    "BucketsCheckpoints": "checkpoints",
    "BucketsOutput": "output",
    "Efa": "hosts",
    "FileSystemSecurityGroup": "Lustre",
    "FileSystem": "Lustre",
    "Key": "data",
    "JobsKey": "notifications",
}
"""What a resource is for, by its logical id without the CDK's eight digits."""


def _question(thing: NamedThing, things: Sequence[NamedThing], region: str) -> Question[Any]:
    service, permission, fetch = _FETCHES[thing.kind]
    # EC2 tells of many by one call.
    many = tuple(each.id for each in things if each.kind == thing.kind)
    argument: Any = many if service == "ec2" else thing.id
    what = f"the {thing.kind}s" if service == "ec2" else f"the {thing.kind} {thing.id}"
    return Service(service, region).question(what, permission, fetch, argument)


_FETCHES: dict[str, tuple[str, str, Callable[..., Any]]] = {
    "subnet": ("ec2", "ec2:DescribeSubnets", fetch_subnets),
    "security group": ("ec2", "ec2:DescribeSecurityGroups", fetch_security_groups),
    "file system": ("fsx", "fsx:DescribeFileSystems", describe_file_system),
    "bucket": ("s3", "s3:ListBucket", fetch_bucket),
    "key": ("kms", "kms:DescribeKey", fetch_key_state),
    "queue": ("batch", "batch:DescribeJobQueues", fetch_queue_state),
    "topic": ("sns", "sns:GetTopicAttributes", fetch_subscribers),
    "role": ("iam", "iam:GetRole", fetch_role),
}
"""How a thing of each kind is asked about: the service, the permission, the function."""

Seen = tuple[Presence, str]
_MISSING = (Presence.MISSING, "")


def _subnet(id_: str, answer: Any) -> Seen:
    for each in answer or ():
        if each.id == id_:
            return (
                Presence.THERE,
                f"{each.availability_zone}, {each.cidr}, {each.free_addresses:,} free addresses",
            )
    return _MISSING


def _group(id_: str, answer: Any) -> Seen:
    for each in answer or ():
        if each.id == id_:
            return (
                Presence.THERE,
                f"{len(each.towards('ingress'))} rules in, {len(each.towards('egress'))} out",
            )
    return _MISSING


def _file_system(_: str, answer: Any) -> Seen:
    if answer is None:
        return _MISSING
    file_system = parse_file_system(answer)
    capacity = f", {file_system.capacity_gib:,} GiB" if file_system.capacity_gib else ""
    throughput = f", {file_system.throughput} MB/s per TiB" if file_system.throughput else ""
    detail = f"{file_system.lifecycle}, {file_system.deployment}{capacity}{throughput}"
    if file_system.serves:
        return Presence.THERE, detail
    is_coming = file_system.lifecycle in ("CREATING", "DELETING")
    because = f": {file_system.failure}" if file_system.failure else ""
    return Presence.CHANGING if is_coming else Presence.FAILED, detail + because


def _key(_: str, answer: Any) -> Seen:
    if answer is None:
        return _MISSING
    return Presence.THERE if answer == "Enabled" else Presence.FAILED, str(answer)


def _queue(_: str, answer: Any) -> Seen:
    if answer is None:
        return _MISSING
    return Presence.THERE if answer == "ENABLED" else Presence.FAILED, str(answer)


def _topic(_: str, answer: Any) -> Seen:
    if answer is None:
        return _MISSING
    return Presence.THERE, "1 subscriber" if answer == 1 else f"{answer} subscribers"


def _plain(_: str, answer: Any) -> Seen:
    return _MISSING if answer is None else (Presence.THERE, "")


_READERS: dict[str, Callable[[str, Any], Seen]] = {
    "subnet": _subnet,
    "security group": _group,
    "file system": _file_system,
    "bucket": _plain,
    "key": _key,
    "queue": _queue,
    "topic": _topic,
    "role": _plain,
}
"""What an answer says of a thing of each kind."""
