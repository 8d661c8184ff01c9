"""A job of two p4d hosts and an account in which all is well; tests change one thing at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from launcher.account.facts import AccountFacts, Bucket, FileSystem, Image, Permissions, Prefix, Quota, Role
from launcher.account.network import Endpoint, NetworkAcl, NetworkAclEntry, Route, RouteTable, Subnet
from launcher.cluster.instances import instance_facts
from launcher.cluster.traffic import LUSTRE_TCP_PORTS, Direction, SecurityGroup, SecurityGroupRule
from launcher.failure_modes.model import Finding
from launcher.jobs.specification import JobSpec
from launcher.planning.request_view import RequestView
from launcher.rules.live.check import check_account
from launcher.rules.live.subject import LiveSubject

REGION, VPC, P4D = "us-west-2", "vpc-1", "ml.p4d.24xlarge"
JOB_GROUP, SERVERS, FRONT = "sg-job", "sg-servers", "sg-front"
ROLE = "arn:aws:iam::123456789012:role/training"
ANY = "0.0.0.0/0"


def rule(direction: Direction, protocol: str = "-1", ports: Any = None, **peers: Any) -> SecurityGroupRule:
    """A rule; `ports` is a number or a pair, `groups`, `ipv4`, `ipv6`, `prefix_lists` its peers."""
    first, last = (ports, ports) if isinstance(ports, int) else ports or (None, None)
    named = {name: tuple(each) for name, each in peers.items()}
    return SecurityGroupRule(direction, protocol, first, last, **named)


def group(id_: str, *rules: SecurityGroupRule, vpc: str = VPC) -> SecurityGroup:
    return SecurityGroup(id_, vpc, rules)


def itself(id_: str) -> tuple[SecurityGroupRule, SecurityGroupRule]:
    """All traffic between the members of a group."""
    return rule("ingress", groups=[id_]), rule("egress", groups=[id_])


OUT = rule("egress", ipv4=[ANY])


def lustre(direction: Direction, peer: str) -> tuple[SecurityGroupRule, ...]:
    return tuple(rule(direction, "tcp", ports, groups=[peer]) for ports in LUSTRE_TCP_PORTS)


def subnet(id_: str = "subnet-a", **changes: Any) -> Subnet:
    made = Subnet(id_, VPC, "us-west-2a", "10.0.0.0/24", 200)
    return replace(made, **changes)


def table(*routes: Route, subnets: tuple[str, ...] = ("subnet-a",)) -> RouteTable:
    return RouteTable("rtb-1", VPC, False, subnets, routes)


NAT = Route(ANY, "nat-1", "nat", True)
INTERNET = Route(ANY, "igw-1", "internet", True)
TRANSIT = Route(ANY, "tgw-1", "other", True)


def entry(number: int, direction: Direction, allows: bool, cidr: str = ANY, ports: Any = None) -> Any:
    first, last = ports or (None, None)
    return NetworkAclEntry(number, direction, allows, "6" if ports else "-1", cidr, first, last)


def acl(
    *entries: NetworkAclEntry, id_: str = "acl-1", subnets: tuple[str, ...] = ("subnet-a",)
) -> NetworkAcl:
    return NetworkAcl(id_, VPC, subnets, entries)


OPEN_ACL = (entry(100, "ingress", True), entry(100, "egress", True))


def endpoint(service: str, **changes: Any) -> Endpoint:
    made = Endpoint(
        f"vpce-{service}", VPC, service, "Interface", "available", True, ("subnet-a",), (), (FRONT,)
    )
    return replace(made, **changes)


S3_GATEWAY = endpoint(
    "s3", type="Gateway", private_dns=False, subnet_ids=(), route_table_ids=("rtb-1",), security_group_ids=()
)

FILE_SYSTEM = FileSystem(
    id="fs-1",
    lifecycle="AVAILABLE",
    mount_name="abcdefgh",
    vpc_id=VPC,
    subnet_id="subnet-a",
    availability_zone="us-west-2a",
    security_group_ids=(SERVERS,),
    deployment="PERSISTENT_2",
    storage_type="SSD",
    capacity_gib=1200,
    throughput=250,
    compression="LZ4",
    version="2.15",
    efa=False,
    kms_key_arn=None,
)

SOUND = AccountFacts(
    region=REGION,
    subnets=(subnet(),),
    groups=(group(JOB_GROUP, *itself(JOB_GROUP), OUT, *lustre("ingress", SERVERS)),),
    route_tables=(table(NAT),),
    endpoints=(),
    endpoint_groups=(),
    acls=(acl(*OPEN_ACL),),
    file_system=FILE_SYSTEM,
    associations=(),
    file_system_groups=(group(SERVERS, *lustre("ingress", JOB_GROUP), *lustre("egress", JOB_GROUP)),),
    buckets={name: Bucket(name, REGION) for name in ("data", "checkpoints", "output", "code")},
    prefixes={
        "s3://data/train": Prefix("s3://data/train", 2),
        "s3://checkpoints/digits-1": Prefix("s3://checkpoints/digits-1", 0),
    },
    role=Role(
        ROLE,
        "training",
        {"Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}}]},
    ),
    permissions=Permissions(ROLE, ()),
    caller=Permissions("arn:aws:iam::123456789012:user/alice", ()),
    image=Image("123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1", True, REGION),
    quota=Quota(f"{P4D} for training job usage", "L-1", 4, 2),
    running_jobs=(),
    offered_in=frozenset({"us-west-2a", "us-west-2b"}),
)

REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits-1",
    "RoleArn": ROLE,
    "ResourceConfig": {"InstanceType": P4D, "InstanceCount": 2},
    "VpcConfig": {"Subnets": ["subnet-a"], "SecurityGroupIds": [JOB_GROUP]},
    "InputDataConfig": [
        {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://data/train"}}},
        {"ChannelName": "code", "DataSource": {"S3DataSource": {"S3Uri": "s3://code/digits-1"}}},
        {
            "ChannelName": "corpus",
            "DataSource": {
                "FileSystemDataSource": {"FileSystemId": "fs-1", "DirectoryPath": "/abcdefgh/corpus"}
            },
        },
    ],
    "CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1"},
    "OutputDataConfig": {"S3OutputPath": "s3://output/"},
}


def subject(
    *,
    hosts: int = 2,
    instance_type: str = P4D,
    job: dict[str, Any] | None = None,
    request: dict[str, Any] | None = None,
    jobs_at_once: int = 1,
    **facts: Any,
) -> LiveSubject:
    """The job with these hosts, fields and keys of its request, and the account with these facts.

    The request names the subnets and groups that the account has, unless it says otherwise.
    """
    account = replace(SOUND, **facts)
    sent = {**REQUEST, "ResourceConfig": {"InstanceType": instance_type, "InstanceCount": hosts}}
    named = {"Subnets": account.subnets, "SecurityGroupIds": account.groups}
    sent["VpcConfig"] = {
        key: [each.id for each in found] if isinstance(found, tuple) else REQUEST["VpcConfig"][key]
        for key, found in named.items()
    }
    sent |= request or {}
    if jobs_at_once > 1:
        sent["HyperParameterTuningJobConfig"] = {"ResourceLimits": {"MaxParallelTrainingJobs": jobs_at_once}}
    fields = {
        "name": "digits",
        "code": {"entry_point": "train.py"},
        "image": "123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
        "resources": {"instance_type": instance_type, "instance_count": hosts},
    }
    return LiveSubject(
        job=JobSpec.model_validate({**fields, **(job or {})}),
        request=RequestView({key: value for key, value in sent.items() if value is not None}),
        facts=instance_facts(instance_type),
        account=account,
    )


def found(code: str | None = None, **state: Any) -> list[Finding]:
    """What the rules find in a state; of one code, or of all."""
    return [each for each in check_account(subject(**state)) if code in (None, each.code)]


def severities(code: str, **state: Any) -> dict[str | None, str]:
    """The severity of each finding of a code, by what it names."""
    return {each.subject: each.severity.value for each in found(code, **state)}
