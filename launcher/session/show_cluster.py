"""What there is of a cluster: its stacks and what they made, its cost at rest, and its picture.

Pictures are drawn by Graphviz as WebAssembly in node (npm package @hpcc-js/wasm-graphviz), which comes with
the CDK's command line: the same version, and so the same picture, on every machine, and no binary to
install.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from enum import StrEnum
from html import unescape
from pathlib import Path
from typing import Any

from launcher.account.facts import Unverified, parse_file_system
from launcher.account.questions.ask import Answers, OnAnswer, Question, Service, ask_all
from launcher.account.questions.ask_identities import fetch_role
from launcher.account.questions.ask_network import fetch_security_groups, fetch_subnets
from launcher.account.questions.ask_storage import describe_file_system, fetch_bucket
from launcher.aws.clients import Clients
from launcher.aws.lookups import fetch_manifest
from launcher.aws.stacks import (
    DeployedStack,
    fetch_hyperpod,
    fetch_key_state,
    fetch_queue_state,
    fetch_stack,
    fetch_subscribers,
)
from launcher.cluster.files import region_in_file
from launcher.cluster.manifest import Cluster
from launcher.cluster.names import ALWAYS_THERE, PARTS, stack_name
from launcher.failure_modes.model import AwsRefusal, Figure, Refusal, Source
from launcher.frozen import frozen
from launcher.provisioning.picture import FONT, graph_of
from launcher.provisioning.rest_costs import CostLine, rest_costs

_BOUND_SECONDS = 20.0
"""For one stack, which takes three calls and more pages."""

_FAILED_STATES = frozenset({"ROLLBACK_COMPLETE", "ROLLBACK_IN_PROGRESS"})
"""A stack whose creation failed; after a failed update it is as before (UPDATE_ROLLBACK_COMPLETE)."""


class StackHealth(StrEnum):
    """How a stack is, by its state."""

    WELL = "well"
    ROLLED_BACK = "rolled back"
    CHANGING = "changing"
    FAILED = "failed"


@frozen
class ShownCluster:
    """A cluster as the account has it; `stacks` by part, in the order of deployment.

    `unverified` is what could not be asked; a part of it is not in `stacks`, nor among the missing.
    """

    name: str
    region: str
    stacks: dict[str, DeployedStack]
    manifest: Cluster | None
    things: tuple[Thing, ...]
    costs: tuple[CostLine, ...]
    unverified: tuple[Unverified, ...]
    missing: tuple[str, ...]

    @property
    def account(self) -> str:
        """The id of its account."""
        return next(iter(self.stacks.values())).account

    @property
    def is_well(self) -> bool:
        """Whether everything that could be looked at is there, and nothing of it failed."""
        bad = [each for each in self.things if each.presence in (Presence.MISSING, Presence.FAILED)]
        failed = [each for each in self.stacks.values() if health(each) is StackHealth.FAILED]
        return not (bad or failed or self.missing)


def show_cluster(
    name: str, clients: Clients, region: str, *, on_answer: OnAnswer | None = None
) -> ShownCluster:
    """Look at a cluster: everything at once, and what follows from the stacks as soon as they are known.

    Raises Refusal where the region has no stack of it, AwsRefusal where AWS refuses to tell of any, or
    cannot be reached.
    """
    stacks = {part: stack_question(name, part, region) for part in PARTS}
    manifest = Service("ssm", region).question("the manifest", "ssm:GetParameter", _fetch_manifest, name)

    def found(answers: Answers) -> dict[str, DeployedStack]:
        seen = {part: answers.get(question) for part, question in stacks.items()}
        return {part: each for part, each in seen.items() if isinstance(each, DeployedStack)}

    def questions(answers: Answers) -> list[Question[Any]]:
        first: list[Question[Any]] = [*stacks.values(), manifest]
        if any(question not in answers for question in first):
            return first
        things = named_things(_known(answers.get(manifest)), found(answers).values())
        return [*first, *questions_about(things, region)]

    answers = ask_all(clients, questions, bound=_BOUND_SECONDS, on_answer=on_answer)
    unverified = tuple(each for each in answers.found.values() if isinstance(each, Unverified))
    deployed = found(answers)
    if not deployed:
        raise _nothing(name, region, unverified)
    known = _known(answers.get(manifest))
    made = frozenset(each.physical_id for stack in deployed.values() for each in stack.resources)
    things = inspect_things(named_things(known, deployed.values()), region, answers, made)
    return ShownCluster(
        name,
        region,
        deployed,
        known,
        things,
        rest_costs([stack.template for stack in deployed.values()], region),
        unverified,
        tuple(_missing(stacks, manifest, answers)),
    )


def stack_question(name: str, part: str, region: str) -> Question[DeployedStack | None]:
    """The question for the stack that holds a part of a cluster."""
    stack = stack_name(name, part)
    permission = "cloudformation:DescribeStacks, GetTemplate and ListStackResources"
    return Service("cloudformation", region).question(f"the stack {stack}", permission, fetch_stack, stack)


def picture_of(cluster: ShownCluster) -> str:
    """The picture of what is deployed, as a graph in Graphviz' language."""
    return graph_of({stack.name: stack.template for stack in cluster.stacks.values()})


def health(stack: DeployedStack) -> StackHealth:
    """How a stack is."""
    if stack.status in _FAILED_STATES or stack.status.endswith("_FAILED"):
        return StackHealth.FAILED
    if stack.status.endswith("_IN_PROGRESS"):
        return StackHealth.CHANGING
    return StackHealth.ROLLED_BACK if "ROLLBACK" in stack.status else StackHealth.WELL


def _fetch_manifest(ssm: Any, name: str) -> Cluster | None:
    try:
        return fetch_manifest(ssm, name)
    except AwsRefusal:
        raise
    except Refusal:
        return None


def _known(manifest: Cluster | Unverified | None) -> Cluster | None:
    return manifest if isinstance(manifest, Cluster) else None


def _missing(
    stacks: dict[str, Question[DeployedStack | None]], manifest: Question[Cluster | None], answers: Answers
) -> Iterator[str]:
    for part, question in stacks.items():
        if part in ALWAYS_THERE and answers.get(question) is None:
            yield f"the {part} stack"
    if answers.get(manifest) is None:
        yield "the manifest"


def _nothing(name: str, region: str, unverified: tuple[Unverified, ...]) -> Refusal:
    if unverified:
        return AwsRefusal(
            f"whether a cluster {name} is deployed in {region} could not be seen: {unverified[0].reason}",
            f"Ask for {unverified[0].permission}.",
        )
    return not_deployed(name, region)


def not_deployed(name: str, region: str) -> Refusal:
    """The refusal of a cluster of which the region has no stack."""
    in_file = region_in_file(name)
    elsewhere = f" (its file says {in_file})" if in_file not in (None, region) else ""
    return Refusal(
        f"no cluster named {name} is deployed in {region}: there is no stack "
        f"{stack_name(name, PARTS[0])}, nor one of its others.",
        f"Correct the name, set AWS_REGION{elsewhere}, or deploy it: "
        f"`npx cdk deploy --all -c cluster={name}`.",
    )


# The things of a cluster that a person asks about: what each is called, and how it is now.


class Presence(StrEnum):
    """How a thing is."""

    THERE = "there"
    CHANGING = "changing"
    FAILED = "failed"
    MISSING = "missing"
    UNVERIFIED = "unverified"


@frozen
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


@frozen
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


def inspect_things(
    things: Sequence[NamedThing], region: str, answers: Answers, made: frozenset[str]
) -> tuple[Thing, ...]:
    """How each thing is, by the answers; `made` holds the ids of what the cluster's stacks made."""
    return tuple(
        _inspect_thing(thing, answers.get(_question(thing, things, region)), made) for thing in things
    )


def _inspect_thing(thing: NamedThing, answer: Any, made: frozenset[str]) -> Thing:
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
    if manifest.hyperpod:
        yield NamedThing("HyperPod cluster", "Slurm", manifest.hyperpod.cluster_arn)
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
    "AWS::SageMaker::Cluster": "HyperPod cluster",
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
    "HyperPod": "Slurm",
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
    "HyperPod cluster": ("sagemaker", "sagemaker:DescribeCluster", fetch_hyperpod),
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


def _hyperpod(_: str, answer: Any) -> Seen:
    if answer is None:
        return _MISSING
    status = str(answer["ClusterStatus"])
    groups = [
        f"{each.get('CurrentCount', 0)} of {each.get('TargetCount', 0)} {each['InstanceGroupName']}"
        for each in answer["InstanceGroups"]
    ]
    because = f": {answer['FailureMessage']}" if answer.get("FailureMessage") else ""
    detail = ", ".join([status + because, *groups])
    if status == "InService":
        return Presence.THERE, detail
    return (Presence.FAILED if status == "Failed" else Presence.CHANGING), detail


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
    "HyperPod cluster": _hyperpod,
    "queue": _queue,
    "topic": _topic,
    "role": _plain,
}
"""What an answer says of a thing of each kind."""


# Graphviz, as pictures are drawn with it.


FIGURES = (
    Figure(
        "18",
        "the oldest Node.js of the CDK's command line",
        Source("aws-cdk 2.1148.1, package.json: engines", date(2026, 11, 22)),
    ),
)

PACKAGE = Path("node_modules") / "@hpcc-js" / "wasm-graphviz"
"""Where npm puts Graphviz, below the checkout that the clusters are deployed from."""

_CHECKOUT = Path(__file__).resolve().parents[3]

_FAMILIES = "Helvetica, Arial, 'Liberation Sans', Arimo, sans-serif"
"""Fonts of the widths that Graphviz reckons with, wherever one of them is there."""

_RENDER = """\
try {
  const { readFileSync } = await import("node:fs");
  const { Graphviz } = await import("@hpcc-js/wasm-graphviz");
  const [graphviz, graph] = [await Graphviz.load(), readFileSync(0, "utf8")];
  const drawn = ["svg", "json"].map((format) => graphviz.layout(graph, format, "dot"));
  process.stdout.write(JSON.stringify(drawn));
} catch (error) {
  // Left to itself, node prints the line that threw: all of Graphviz.
  process.stderr.write(error.message.trim());
  process.exitCode = 1;
}
"""

_TEXT = re.compile(r"<text (?P<look>[^<>]*)>(?P<text>[^<]*)</text>")

Style = tuple[bool, float, str]
"""Bold or not, the size in points, and the text: what decides how wide it is."""


def render(graph: str) -> str:
    """A graph in Graphviz' language, in the font `FONT`, as SVG.

    Every text is drawn as wide as Graphviz reckoned, so that none leaves its box where the reader's font is
    wider.

    Raises:
        Refusal: node or the npm package is missing, or the graph is not valid.
    """
    command = [_node(), "--input-type=module", "--eval", _RENDER]
    run = subprocess.run(command, input=graph, cwd=_folder(), capture_output=True, text=True)
    if run.returncode != 0:
        raise Refusal(
            f"the picture could not be drawn: node ended with {run.returncode}: {run.stderr.strip()}",
            "Run `npm ci` in the checkout of Slipway; node must be 18 or newer.",
        )
    svg, layout = json.loads(run.stdout)
    fixed = _with_widths(svg, _widths(json.loads(layout)))
    return fixed.replace(f'font-family="{FONT},sans-Serif"', f'font-family="{_FAMILIES}"')


def _node() -> str:
    beside = Path(sys.executable).parent
    found = shutil.which("node", path=os.pathsep.join([os.environ.get("PATH", os.defpath), str(beside)]))
    if found is None:
        raise Refusal(
            "there is no node on PATH; without it no picture can be drawn.",
            "Install Node.js 18 or newer (the CDK needs it too), or leave out --picture.",
        )
    return found


def _folder() -> Path:
    """The folder from which node finds Graphviz: the current one, else the checkout of this package."""
    for folder in (Path.cwd(), _CHECKOUT):
        if (folder / PACKAGE).is_dir():
            return folder
    raise Refusal(
        f"{PACKAGE} is not in {Path.cwd()}; without it no picture can be drawn.",
        "Run `npm ci` in the checkout of Slipway and call the command there, or leave out --picture.",
    )


def _widths(value: Any) -> dict[Style, float]:
    """The widths of all texts in Graphviz' drawing operations (graphviz.org, xdot), wherever they stand."""
    found: dict[Style, float] = {}
    if isinstance(value, list):
        size, bold = 0.0, False
        for each in value:
            match each:
                case {"op": "F", "size": points}:
                    size = float(points)
                case {"op": "t", "fontchar": flags}:
                    bold = bool(flags & 1)
                case {"op": "T", "width": width, "text": text}:
                    found[bold, size, text] = float(width)
                case _:
                    found |= _widths(each)
    elif isinstance(value, dict):
        for each in value.values():
            found |= _widths(each)
    return found


def _with_widths(svg: str, widths: Mapping[Style, float]) -> str:
    """The picture with its width at every text: readers with another font squeeze or stretch it."""

    def fixed(found: re.Match[str]) -> str:
        look, text = found["look"], found["text"]
        size = re.search(r'font-size="([\d.]+)"', look)
        if size is None or not text.strip():
            return found[0]
        width = widths['font-weight="bold"' in look, float(size[1]), unescape(text)]
        return f'<text textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs" {look}>{text}</text>'

    return _TEXT.sub(fixed, svg)
