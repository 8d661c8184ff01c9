"""How the resources of a template are put into words, for the picture of a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

from launcher.cluster.files import Template, each_reference, exports, is_kept, outputs, resources
from launcher.frozen import frozen

Properties = Mapping[str, Any]
Key = tuple[str, str]
"""A resource's stack and logical id."""


@frozen
class DrawnResource:
    """A resource of a template, with the place of the construct that it is drawn in."""

    key: Key
    type: str
    properties: Properties
    box: str
    kept: bool


Words = Callable[[Properties, Sequence[DrawnResource]], Iterator[str]]


def in_words(resource: DrawnResource, box: Sequence[DrawnResource]) -> list[str]:
    """What the picture says of a resource: lines that the resources of one box may share; none of most types.

    Args:
        resource: the resource.
        box: all resources of its construct.
    """
    words = _WORDS.get(resource.type)
    return [line for line in words(resource.properties, box) if line] if words else []


def _subnet(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    tags = {tag["Key"]: tag["Value"] for tag in properties["Tags"]}
    zone = properties.get("AvailabilityZone") or properties.get("AvailabilityZoneId")
    if tags.get("aws-cdk:subnet-type") != "Public":
        yield f"private subnet {properties['CidrBlock']}, {zone}"


def _endpoint(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    if properties.get("VpcEndpointType") == "Interface":
        kinds = [each.properties.get("VpcEndpointType") for each in box]
        yield f"interface endpoints to {kinds.count('Interface')} services"
    else:
        yield "gateway endpoint to S3"


def _rule(way: str, peer: str) -> Words:
    preposition = {"in": "from", "out": "to"}[way]

    def describe(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
        if "CidrIp" in properties:
            yield f"{way}: {_traffic(properties)} {preposition} {properties['CidrIp']}"
        elif properties["IpProtocol"] == "-1" and properties.get(peer) == properties["GroupId"]:
            yield f"{way}: {_traffic(properties)} {preposition} itself"

    return describe


def _hyperpod(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    for group in properties["InstanceGroups"]:
        role = group["SlurmConfig"]["NodeType"].lower()
        yield f"{group['InstanceCount']} {group['InstanceType']}: {group['InstanceGroupName']}, {role}"


def _link(properties: Mapping[str, Any], _: Any) -> Iterator[str]:
    place = properties["DataRepositoryPath"]
    named = place if isinstance(place, str) else "a bucket of the cluster"
    yield f"{properties['FileSystemPath']} mirrors {named}"


def _file_system(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    lustre = properties["LustreConfiguration"]
    throughput = lustre.get("PerUnitStorageThroughput")
    if "ThroughputCapacity" in lustre:
        yield f"Lustre on Intelligent-Tiering, {lustre['ThroughputCapacity']:,} MB/s"
        return
    yield f"Lustre {lustre['DeploymentType']}, {properties['StorageCapacity']:,} GiB"
    if throughput:
        yield f"{throughput} MB/s per TiB"


def _bucket(_: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    logged = [each.properties.get("LoggingConfiguration") for each in box if each.type == "AWS::S3::Bucket"]
    names = [logging["LogFilePrefix"].rstrip("/") for logging in logged if logging]
    yield f"buckets: {', '.join([*names, 'access logs'])}"


def _role(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    if len(box) == 1:  # else one of the helpers that other resources need
        yield f"taken on by {properties['AssumeRolePolicyDocument']['Statement'][0]['Principal']['Service']}"


def _event(properties: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    states = [
        state
        for each in box
        if each.type == "AWS::Events::Rule"
        for state in each.properties["EventPattern"]["detail"]["TrainingJobStatus"]
    ]
    yield f"tells of jobs: {', '.join(states)}"


def _alarm(_: Properties, box: Sequence[DrawnResource]) -> Iterator[str]:
    yield f"alarms: {sum(each.type == 'AWS::CloudWatch::Alarm' for each in box)}"


def _batch(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    limits = ", ".join(str(limit["MaxCapacity"]) for limit in properties["CapacityLimits"])
    yield f"AWS Batch, up to {limits} hosts"


def _shares(properties: Properties, _: Sequence[DrawnResource]) -> Iterator[str]:
    shares = properties["FairsharePolicy"]["ShareDistribution"]
    yield f"shares: {', '.join(share['ShareIdentifier'] for share in shares)}"


def _says(*lines: str) -> Words:
    return lambda _, __: iter(lines)


def _traffic(properties: Properties) -> str:
    return "all traffic" if properties["IpProtocol"] == "-1" else " ".join(ports(properties))


def ports(properties: Properties) -> list[str]:
    """The ports of a security group's rule, such as TCP 1018-1023; none where it is for all."""
    if "FromPort" not in properties:
        return []
    first, last = properties["FromPort"], properties["ToPort"]
    return [f"{properties['IpProtocol'].upper()} {first if first == last else f'{first}-{last}'}"]


_WORDS: dict[str, Words] = {
    "AWS::EC2::VPC": lambda properties, _: iter([f"VPC {properties['CidrBlock']}"]),
    "AWS::EC2::Subnet": _subnet,
    "AWS::EC2::NatGateway": _says("NAT gateway"),
    "AWS::EC2::VPCEndpoint": _endpoint,
    "AWS::Logs::LogGroup": _says("log of refused traffic"),
    "AWS::EC2::SecurityGroupIngress": _rule("in", "SourceSecurityGroupId"),
    "AWS::EC2::SecurityGroupEgress": _rule("out", "DestinationSecurityGroupId"),
    "AWS::FSx::FileSystem": _file_system,
    "AWS::FSx::DataRepositoryAssociation": _link,
    "AWS::S3::Bucket": _bucket,
    "AWS::KMS::Key": _says("KMS key"),
    "AWS::IAM::Role": _role,
    "AWS::IAM::ManagedPolicy": _says("what those who launch may do"),
    "AWS::Batch::ServiceEnvironment": _batch,
    "AWS::Batch::SchedulingPolicy": _shares,
    "AWS::SNS::Topic": _says("SNS topic"),
    "AWS::Events::Rule": _event,
    "AWS::CloudWatch::Alarm": _alarm,
    "AWS::CloudWatch::Dashboard": _says("dashboard"),
    "AWS::Budgets::Budget": _says("monthly budget"),
    "AWS::SageMaker::Cluster": _hyperpod,
    "AWS::SSM::Parameter": lambda properties, _: iter([f"parameter {properties['Name']}"]),
}
"""The resource types that are told, with how one of each is put into words."""


FONT = "Helvetica"
"""The one name of which Graphviz knows the widths."""

_RULES = ("AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress")


@frozen
class Box:
    """A construct: its place (`stack/id`), its class, and its resources in words.

    Each line says whether what it tells of outlives the stack.
    """

    place: str
    title: str
    lines: Mapping[str, bool]

    @property
    def stack(self) -> str:
        """The stack that it is in."""
        return self.place.split("/")[0]


@dataclass(slots=True)
class Arrow:
    """References from one box to another, or to several of a stack."""

    source: str
    targets: list[str]
    labels: dict[str, None] = field(default_factory=dict)
    both_ways: bool = False


Handle = str | tuple[str, str]
"""What stands for a resource in another stack: an export's name, or a stack and the name of its output."""

Handles = Mapping[Handle, Key]


@frozen
class DrawnApp:
    """The resources in the order of deployment, the constructs' classes by place, and the handles."""

    resources: tuple[DrawnResource, ...]
    titles: Mapping[str, str]
    handles: Handles


def graph_of(templates: Mapping[str, Template], titles: Mapping[str, str] | None = None) -> str:
    """The graph of templates, given by the names of their stacks in the order of deployment.

    Args:
        templates: as the CDK's command line deploys them, with the paths of the constructs in them.
        titles: the classes of the constructs by their paths; a construct that is not in it is called by
            its id, which is all that a deployed template tells.
    """
    app = _read(templates, titles or {})
    boxes = boxes_of(app)
    found = arrows(app, boxes)
    everywhere = refer_to_all(found, boxes)
    shown = {
        place: replace(box, lines={**box.lines, "names what all other stacks hold": False})
        if place in everywhere
        else box
        for place, box in boxes.items()
    }
    return dot(
        shown, merged([arrow for arrow in found if arrow.source not in everywhere]), first=sorted(everywhere)
    )


def _read(templates: Mapping[str, Template], titles: Mapping[str, str]) -> DrawnApp:
    return DrawnApp(
        tuple(each for name, template in templates.items() for each in _resources(name, template)),
        titles,
        {name: key for stack, template in templates.items() for name, key in _handles(stack, template)},
    )


def boxes_of(app: DrawnApp) -> dict[str, Box]:
    """A box for each construct with something to say, by place."""
    boxes = {}
    for place in dict.fromkeys(resource.box for resource in app.resources):
        own = [resource for resource in app.resources if resource.box == place]
        lines = {line: resource.kept for resource in own for line in in_words(resource, own)}
        if lines:
            boxes[place] = Box(place, app.titles.get(place, place.split("/")[1]), lines)
    return boxes


def arrows(app: DrawnApp, boxes: Mapping[str, Box]) -> list[Arrow]:
    """One arrow for each pair of boxes of which one refers to the other."""
    owners = {each.key: each.box for each in app.resources}
    found: dict[tuple[str, str], Arrow] = {}
    for resource in app.resources:
        for key, under in _referred(resource.properties, resource.key[0], app.handles):
            target = owners.get(key)
            if target is None or target == resource.box or not {target, resource.box} <= boxes.keys():
                continue
            arrow = found.setdefault((resource.box, target), Arrow(resource.box, [target]))
            if resource.type in _RULES:
                arrow.both_ways = True
                arrow.labels |= dict.fromkeys(ports(resource.properties))
            elif under in _VERBS:
                arrow.labels |= {_VERBS[under]: None}
    return list(found.values())


def refer_to_all(found: Sequence[Arrow], boxes: Mapping[str, Box]) -> set[str]:
    """The boxes that refer to every other stack: arrows from them would tell nothing."""
    stacks = {box.stack for box in boxes.values()}
    reached: dict[str, set[str]] = {place: {box.stack} for place, box in boxes.items()}
    for arrow in found:
        reached[arrow.source] |= {target.split("/")[0] for target in arrow.targets}
    return {place for place, them in reached.items() if them == stacks}


def merged(found: Sequence[Arrow]) -> list[Arrow]:
    """The arrows, with those from one box to several of another stack as one arrow to that stack."""
    by_stack: dict[tuple[str, str], list[Arrow]] = {}
    for arrow in found:
        by_stack.setdefault((arrow.source, arrow.targets[0].split("/")[0]), []).append(arrow)
    result: list[Arrow] = []
    for (source, stack), group in by_stack.items():
        plain = [arrow for arrow in group if not arrow.both_ways and stack != source.split("/")[0]]
        result += [arrow for arrow in group if arrow not in plain or len(plain) == 1]
        if len(plain) > 1:
            labels = {label: None for arrow in plain for label in arrow.labels}
            result.append(Arrow(source, [arrow.targets[0] for arrow in plain], labels))
    return result


def dot(boxes: Mapping[str, Box], drawn: Sequence[Arrow], *, first: Collection[str] = ()) -> str:
    """The graph in Graphviz' language: a frame for each stack, with the boxes `first` at the top."""
    stacks = list(dict.fromkeys(box.stack for box in boxes.values()))
    lines = [*_HEAD]
    for stack in stacks:
        name = stack.rsplit("-", 1)[-1]
        lines.append(f'  subgraph "cluster_{stack}" {{ label=<<B>{name} stack</B>> labelloc=t margin=12')
        lines += [f"    {quoted(box.place)} [{_look(box)}]" for box in boxes.values() if box.stack == stack]
        lines.append("  }")
    lines += [f"  {quoted(each.source)} -> {quoted(each.targets[0])} [{_line(each)}]" for each in drawn]
    targets = {target for each in drawn for target in each.targets}
    roots = [place for place in boxes if place not in targets and place not in first]
    lines += [f"  {quoted(top)} -> {quoted(root)} [style=invis]" for top in first for root in roots]
    return "\n".join([*lines, "}", ""])


def _resources(stack: str, template: Template) -> Iterator[DrawnResource]:
    for logical_id, resource in resources(template).items():
        # A template that was deployed without paths has one box, called as the stack.
        path = resource.get("Metadata", {}).get("aws:cdk:path", f"{stack}/{stack}")
        box = "/".join(path.split("/")[:2])
        properties = resource.get("Properties", {})
        yield DrawnResource((stack, logical_id), resource["Type"], properties, box, is_kept(resource))


def _handles(stack: str, template: Template) -> Iterator[tuple[Handle, Key]]:
    values: dict[Handle, Any] = {(stack, name): value for name, value in outputs(template).items()}
    values.update(exports(template))
    for handle, value in values.items():
        for key, _ in _referred(value, stack, {}):
            yield handle, key


def _referred(value: Any, stack: str, handles: Handles) -> Iterator[tuple[Key, str]]:
    """What a value refers to, each with the property that the reference stands under.

    References into stacks that are not there lead nowhere.
    """
    for each in each_reference(value):
        if each.kind == "resource":
            yield (stack, each.name), each.under
            continue
        handle = each.name if each.kind == "export" else (each.stack, each.name)
        if handle in handles:
            yield handles[handle], each.under


_VERBS = {
    "SubnetIds": "stands in",
    "KmsKeyId": "encrypted with",
    "KMSMasterKeyID": "encrypted with",
    "RoleArn": "jobs of",
    "Resource": "may use",
    "Value": "watches",
}
"""What a reference means, by the property that it stands under."""

_KEPT = "#b45309"
_PORTS = "#1d4ed8"
_LEGEND = (
    f'<FONT COLOR="{_KEPT}">orange: kept by cdk destroy</FONT>&#160;&#160;&#160;'
    f'<FONT COLOR="{_PORTS}">blue: open ports</FONT>&#160;&#160;&#160;arrow: refers to'
)
_HEAD = (
    "digraph architecture {",
    "  compound=true rankdir=TB nodesep=0.35 ranksep=0.55 margin=0.1 bgcolor=white",
    '  labeljust=l style="rounded,filled" color="#c8ccd2" fillcolor="#f6f7f9"',
    f"  label=<{_LEGEND}> labelloc=b",
    f'  graph [fontname="{FONT}" fontsize=13]',
    f'  node [fontname="{FONT}" fontsize=12 shape=box style="rounded,filled" margin="0.2,0.06"]',
    '  node [color="#6b7280" fillcolor=white]',
    f'  edge [fontname="{FONT}" fontsize=11 color="#6b7280" fontcolor="#374151" arrowsize=0.7]',
)


def quoted(text: str) -> str:
    """A name as Graphviz reads it."""
    return json.dumps(text)


def _look(box: Box) -> str:
    rows = [f"<B>{escape(box.title)}</B>", *(_row(line, kept) for line, kept in box.lines.items())]
    left = '<BR ALIGN="LEFT"/>'
    return f"label=<{left.join([*rows, ''])}>"


def _row(line: str, kept: bool) -> str:
    color = f' COLOR="{_KEPT}"' if kept else ""
    return f'<FONT POINT-SIZE="11"{color}>{escape(line)}</FONT>'


def _line(arrow: Arrow) -> str:
    look = [f'label="{", ".join(arrow.labels)}"'] if arrow.labels else []
    if len(arrow.targets) > 1:
        look.append(f'lhead="cluster_{arrow.targets[0].split("/")[0]}"')
    if arrow.both_ways:
        look.append(f'dir=both color="{_PORTS}" fontcolor="{_PORTS}"')
    return " ".join(look)
