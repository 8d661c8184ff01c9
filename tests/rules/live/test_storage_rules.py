"""S3001, S3002, IAM001, CKPT001 and IMG001: buckets, the role, other jobs' checkpoints, the image."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from launcher.account.facts import (
    Bucket,
    DataRepositoryAssociation,
    Image,
    Permissions,
    Prefix,
    RunningJob,
    Unverified,
)
from launcher.account.network import Route
from launcher.cluster.traffic import LUSTRE_TCP_PORTS
from launcher.failure_modes.model import Finding
from tests.rules.live.states import (
    ANY,
    FILE_SYSTEM,
    JOB_GROUP,
    NAT,
    OUT,
    REGION,
    REQUEST,
    ROLE,
    SERVERS,
    SOUND,
    found,
    group,
    itself,
    lustre,
    rule,
    severities,
    subnet,
    table,
)

URI = "s3://data/train"
DENIED = Unverified("the bucket data", "s3:ListBucket", "403")


@pytest.mark.parametrize(
    ("bucket", "says"),
    [
        pytest.param(Bucket("data", REGION), None, id="here"),
        pytest.param(Bucket("data", "eu-west-1"), "eu-west-1, the job in us-west-2", id="elsewhere"),
        pytest.param(None, "(input train) does not exist", id="nowhere"),
    ],
)
def test_buckets_exist_in_the_jobs_region(bucket: Bucket | None, says: str | None) -> None:
    findings = found("S3001", buckets={"data": bucket})
    assert len(findings) == (says is not None)
    assert says is None or says in findings[0].message


@pytest.mark.parametrize(
    ("bucket", "use"),
    [("data", "input train"), ("checkpoints", "checkpoints"), ("output", "output"), ("code", "code")],
)
def test_every_bucket_of_the_job_is_in_its_region(bucket: str, use: str) -> None:
    buckets = {**SOUND.buckets, bucket: Bucket(bucket, "eu-west-1")}
    (finding,) = found("S3001", buckets=buckets)
    assert f"the bucket {bucket} ({use}) is in eu-west-1, the job in us-west-2" in finding.message


def test_a_bucket_that_may_not_be_seen_is_not_verified() -> None:
    (finding,) = found("S3001", buckets={"data": DENIED})
    assert (finding.severity, finding.verified) == ("warning", False)
    assert "s3:ListBucket" in finding.message


@pytest.mark.parametrize(("objects", "count"), [(0, 1), (1, 0), (2, 0)])
def test_an_input_without_objects_is_an_error(objects: int, count: int) -> None:
    findings = found("S3001", prefixes={URI: Prefix(URI, objects)})
    assert [each.severity for each in findings] == ["error"] * count


def test_an_empty_prefix_of_a_missing_bucket_is_told_once() -> None:
    assert len(found("S3001", buckets={"data": None}, prefixes={URI: Prefix(URI, 0)})) == 1


def test_an_input_that_may_not_be_listed_is_not_verified() -> None:
    (finding,) = found("S3002", prefixes={URI: DENIED})
    assert not finding.verified


PUT, READ = ("s3:PutObject", "arn:aws:s3:::output/*"), ("s3:GetObject", "arn:aws:s3:::data/*")


@pytest.mark.parametrize(
    ("denied", "data", "other"),
    [
        pytest.param([], 0, 0, id="nothing"),
        pytest.param([PUT], 1, 0, id="the output"),
        pytest.param([PUT, READ], 2, 0, id="output and input"),
        pytest.param([("kms:Decrypt", "arn:aws:kms:::key/1")], 1, 0, id="the key of the data"),
        pytest.param([("ecr:BatchGetImage", "*")], 0, 1, id="the image"),
        pytest.param([PUT, ("ecr:BatchGetImage", "*"), ("logs:PutLogEvents", "*")], 1, 1, id="several"),
    ],
)
def test_what_the_role_is_denied_is_told_by_what_it_is_about(denied: Any, data: int, other: int) -> None:
    permissions = Permissions(ROLE, tuple(denied))
    assert len(found("S3002", permissions=permissions)) == data
    assert len(found("IAM001", permissions=permissions)) == other


def test_what_a_keys_own_policy_may_allow_is_not_verified() -> None:
    permissions = Permissions(ROLE, (), (("kms:Decrypt", "arn:aws:kms:::key/1"),))
    (finding,) = found("S3002", permissions=permissions)
    assert (finding.severity, finding.verified) == ("warning", False)


def trusting(principal: Any, effect: str = "Allow") -> Any:
    trust = {"Statement": [{"Effect": effect, "Principal": principal, "Action": "sts:AssumeRole"}]}
    return replace(SOUND.role, trust=trust)  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("role", "says"),
    [
        pytest.param(trusting({"Service": "sagemaker.amazonaws.com"}), None, id="SageMaker"),
        pytest.param(
            trusting({"Service": ["ec2.amazonaws.com", "sagemaker.amazonaws.com"]}),
            None,
            id="it among others",
        ),
        pytest.param(trusting({"Service": "ec2.amazonaws.com"}), "trusts ec2.amazonaws.com", id="another"),
        pytest.param(trusting({"Service": "sagemaker.amazonaws.com"}, "Deny"), "trusts nobody", id="denied"),
        pytest.param(None, "does not exist", id="no role"),
    ],
)
def test_the_role_is_there_and_trusts_sagemaker(role: Any, says: str | None) -> None:
    findings = found("IAM001", role=role)
    assert len(findings) == (says is not None)
    assert says is None or says in findings[0].message


def test_a_caller_who_may_not_pass_the_role_is_told() -> None:
    (finding,) = found("IAM001", caller=Permissions("user/alice", (("iam:PassRole", ROLE),)))
    assert finding.severity == "error"
    assert "user/alice may not iam:PassRole" in finding.message


@pytest.mark.parametrize(
    ("other", "relation"),
    [
        pytest.param("s3://checkpoints/digits-1", "is that", id="the same"),
        pytest.param("s3://checkpoints/digits-1/", "is that", id="the same with a slash"),
        pytest.param("s3://checkpoints", "lies below", id="above"),
        pytest.param("s3://checkpoints/digits-1/run", "contains", id="below"),
        pytest.param("s3://checkpoints/digits-10", None, id="only begins alike"),
        pytest.param("s3://elsewhere/digits-1", None, id="another bucket"),
        pytest.param(None, None, id="none"),
    ],
)
def test_no_running_job_uses_the_checkpoints(other: str | None, relation: str | None) -> None:
    findings = found("CKPT001", running_jobs=(RunningJob("other-1", "InProgress", other),))
    assert len(findings) == (relation is not None)
    assert relation is None or relation in findings[0].message


def test_checkpoints_that_the_container_moves_are_judged_alike() -> None:
    request = {"CheckpointConfig": None, "Environment": {"SLIPWAY_CHECKPOINT_URI": "s3://checkpoints/x"}}
    running = (RunningJob("other-1", "InProgress", "s3://checkpoints/x"),)
    assert severities("CKPT001", running_jobs=running, request=request) == {"other-1": "error"}


def test_what_lies_at_the_checkpoints_already_is_a_warning() -> None:
    uri = "s3://checkpoints/digits-1"
    assert severities("CKPT001", prefixes={uri: Prefix(uri, 1)}) == {uri: "warning"}


@pytest.mark.parametrize(
    ("image", "count"),
    [
        (Image("train:1", True, REGION), 0),
        (Image("train:1", True), 0),
        (Image("train:1", False, REGION), 1),
        (Image("train:1", True, "eu-west-1"), 1),
    ],
)
def test_the_image_is_in_the_region(image: Image, count: int) -> None:
    assert len(found("IMG001", image=image)) == count


URI_dataset = "s3://data/train"
GB, M5 = 1000**3, "ml.m5.xlarge"
SHARDED = {"s3_uri": URI_dataset, "distribution": "ShardedByS3Key"}
PART = Prefix(URI_dataset, 1000, 100 * GB, more=True)
"""More than one call lists: of the rest nothing is known."""


def judged(listed: Prefix | Unverified = PART, *, mode: str = "File", **state: Any) -> list[Finding]:
    """The findings where this was listed at the input `train`, which is read in this mode."""
    train, *others = REQUEST["InputDataConfig"]
    request = {"InputDataConfig": [{**train, "InputMode": mode}, *others]}
    return found("FSX006", request=request, prefixes={URI_dataset: listed}, **state)


@pytest.mark.parametrize(
    ("listed", "says"),
    [
        pytest.param(Prefix(URI_dataset, 3, 500 * GB), None, id="500 GB"),
        pytest.param(Prefix(URI_dataset, 3, 501 * GB), "holds 501 GB for each host (3 objects)", id="more"),
        pytest.param(
            Prefix(URI_dataset, 1000, 501 * GB, more=True),
            "holds at least 501 GB for each host (at least 1,000 objects)",
            id="more, in a part",
        ),
        pytest.param(PART, None, id="a part that is not large"),
        pytest.param(Unverified("what lies there", "s3:ListBucket", "403"), None, id="not known"),
    ],
)
def test_what_lies_in_s3_is_judged_by_its_size(listed: Any, says: str | None) -> None:
    findings = judged(listed, file_system=None, associations=None)
    assert [each.severity for each in findings] == ["warning"] * (says is not None)
    assert says is None or says in findings[0].message


def test_the_bound_is_a_byte_more_than_500_gb() -> None:
    assert judged(Prefix(URI_dataset, 1, 500 * GB)) == []
    assert len(judged(Prefix(URI_dataset, 1, 500 * GB + 1))) == 1


@pytest.mark.parametrize("mode", ["FastFile", "Pipe"])
def test_what_is_streamed_may_be_large(mode: str) -> None:
    assert judged(Prefix(URI_dataset, 3, 9000 * GB), mode=mode) == []


@pytest.mark.parametrize(("hosts", "count"), [(2, 0), (1, 1)])
def test_a_sharded_input_counts_by_the_part_of_a_host(hosts: int, count: int) -> None:
    listed = Prefix(URI_dataset, 10, 900 * GB)
    assert len(judged(listed, hosts=hosts, job={"inputs": {"train": SHARDED}})) == count


@pytest.mark.parametrize(("size", "count"), [(30 * GB, 0), (30 * GB + 1, 1)])
def test_what_is_downloaded_fits_on_the_disk(size: int, count: int) -> None:
    findings = judged(Prefix(URI_dataset, 3, size), instance_type=M5)
    assert ["does not fit on its 30 GB of disk" in each.message for each in findings] == [True] * count


@pytest.mark.parametrize(
    ("listed", "count"),
    [
        pytest.param(Prefix(URI_dataset, 1000, 1000 * 10**6 - 1, more=True), 1, id="small and many"),
        pytest.param(Prefix(URI_dataset, 1000, 1000 * 10**6, more=True), 0, id="a megabyte each"),
        pytest.param(Prefix(URI_dataset, 1000, 1000, more=False), 0, id="small, and no more than a thousand"),
    ],
)
def test_very_many_small_objects_are_an_information(listed: Prefix, count: int) -> None:
    findings = judged(listed)
    assert [each.severity for each in findings] == ["info"] * count
    assert all("more than 1,000 objects" in each.message for each in findings)


LINK = DataRepositoryAssociation("dra-1", "AVAILABLE", "/train", "s3://data/train")


@pytest.mark.parametrize(
    ("size", "links", "capacity", "count"),
    [
        pytest.param("2TB", [LINK], 12000, 1, id="linked, and downloaded"),
        pytest.param("500GB", [LINK], 12000, 0, id="not more than 500 GB"),
        pytest.param("2TB", [], 12000, 0, id="it may be what is mounted"),
        pytest.param("2TB", [], 1200, 1, id="larger than the file system"),
        pytest.param("2TB", [replace(LINK, s3_uri="s3://data/tra")], 12000, 0, id="only begins alike"),
        pytest.param(None, [LINK], 1200, 0, id="a size that is not known"),
    ],
)
def test_large_data_is_not_downloaded_beside_a_file_system(
    size: str | None, links: Any, capacity: int, count: int
) -> None:
    findings = judged(
        job={"data": {"size": size}} if size else {},
        associations=tuple(links),
        file_system=replace(FILE_SYSTEM, capacity_gib=capacity),
    )
    assert [each.severity for each in findings] == ["warning"] * count


@pytest.mark.parametrize("links", [(LINK,), ()])
def test_a_complete_listing_outweighs_what_the_job_file_says(
    links: tuple[DataRepositoryAssociation, ...],
) -> None:
    job = {"data": {"size": "2TB"}}
    assert judged(Prefix(URI_dataset, 3, 5 * GB), job=job, associations=links) == []


def test_linked_data_that_is_seen_to_be_large_is_told_once_with_the_path() -> None:
    (finding,) = judged(Prefix(URI_dataset, 3, 900 * GB), associations=(LINK,))
    assert "linked to /train" in finding.message


def test_data_that_is_seen_to_be_large_is_not_also_inferred() -> None:
    (finding,) = judged(Prefix(URI_dataset, 3, 2000 * GB), job={"data": {"size": "2TB"}})
    assert "holds 2,000 GB" in finding.message


def test_the_path_on_the_file_system_is_told() -> None:
    link = replace(LINK, path="/ns", s3_uri="s3://data")
    (finding,) = judged(job={"data": {"size": "2TB"}}, associations=(link,))
    assert "inputs.train: {lustre: /ns/train}" in finding.remedy


NO_MOUNT = {"InputDataConfig": REQUEST["InputDataConfig"][:2]}


@pytest.mark.parametrize(
    ("lifecycle", "severity"),
    [
        ("AVAILABLE", None),
        ("UPDATING", None),
        ("CREATING", "error"),
        ("FAILED", "error"),
        ("MISCONFIGURED", "error"),
        ("MISCONFIGURED_UNAVAILABLE", "error"),
        ("DELETING", "error"),
    ],
)
def test_only_a_file_system_that_serves_can_be_mounted(lifecycle: str, severity: str | None) -> None:
    judged = severities("FSX001", file_system=replace(FILE_SYSTEM, lifecycle=lifecycle))
    assert judged == ({} if severity is None else {"fs-1": severity})


def test_waiting_is_advised_only_where_it_helps() -> None:
    (creating,) = found("FSX001", file_system=replace(FILE_SYSTEM, lifecycle="CREATING"))
    (failed,) = found("FSX001", file_system=replace(FILE_SYSTEM, lifecycle="FAILED", failure="no ENI"))
    assert creating.remedy.startswith("Wait")
    assert "do not heal by waiting" in failed.remedy
    assert "no ENI" in failed.message


def test_a_file_system_that_does_not_exist_is_an_error_where_it_is_mounted() -> None:
    gone = {"file_system": None, "file_system_groups": None, "associations": None}
    assert severities("FSX001", **gone) == {"fs-1": "error"}
    assert severities("FSX001", request=NO_MOUNT, **gone) == {}


@pytest.mark.parametrize(
    ("subnets", "zone", "named"),
    [
        pytest.param([subnet()], "us-west-2a", [], id="the same zone"),
        pytest.param([subnet()], "us-west-2b", ["subnet-a"], id="another zone"),
        pytest.param(
            [subnet(), subnet("subnet-b", availability_zone="us-west-2b")],
            "us-west-2a",
            ["subnet-b"],
            id="one of two subnets elsewhere",
        ),
        pytest.param([subnet()], None, [], id="a zone that is not known"),
    ],
)
def test_the_file_system_is_in_the_zone_of_every_subnet(subnets: Any, zone: Any, named: list[str]) -> None:
    findings = found(
        "FSX002", subnets=tuple(subnets), file_system=replace(FILE_SYSTEM, availability_zone=zone)
    )
    assert len(findings) == bool(named)
    assert all(f"{name} in" in findings[0].message for name in named)


@pytest.mark.parametrize(
    ("directory", "mount_name", "count"),
    [
        ("/abcdefgh", "abcdefgh", 0),
        ("/abcdefgh/corpus", "abcdefgh", 0),
        ("/abcdefghi/corpus", "abcdefgh", 1),
        ("/fsx/corpus", "abcdefgh", 1),
        ("/corpus", "abcdefgh", 1),
        ("/abcdefgh/corpus", None, 0),
    ],
)
def test_paths_begin_with_the_name_that_fsx_tells(directory: str, mount_name: Any, count: int) -> None:
    source = {"FileSystemDataSource": {"FileSystemId": "fs-1", "DirectoryPath": directory}}
    request = {"InputDataConfig": [{"ChannelName": "corpus", "DataSource": source}]}
    findings = found("FSX003", request=request, file_system=replace(FILE_SYSTEM, mount_name=mount_name))
    assert len(findings) == count


PEERING = Route("10.1.0.0/16", "pcx-1", "other", True)
BLACK_HOLE = Route("10.1.0.0/16", "pcx-1", "other", False)


@pytest.mark.parametrize(
    ("routes", "severity", "verified"),
    [
        pytest.param([NAT], "error", True, id="no way from one to the other"),
        pytest.param([NAT, PEERING], "warning", False, id="the two may be connected"),
        pytest.param([NAT, BLACK_HOLE], "error", True, id="a connection that is gone"),
    ],
)
def test_a_file_system_in_another_vpc_is_found(routes: list[Route], severity: str, verified: bool) -> None:
    (finding,) = found(
        "FSX004", file_system=replace(FILE_SYSTEM, vpc_id="vpc-2"), route_tables=(table(*routes),)
    )
    assert (finding.severity, finding.verified, finding.subject) == (severity, verified, "fs-1")
    assert "fs-1 is in vpc-2, the job's hosts in vpc-1" in finding.message


def test_where_the_routes_are_not_known_another_vpc_is_a_warning() -> None:
    elsewhere = replace(FILE_SYSTEM, vpc_id="vpc-2")
    denied = Unverified("the route tables", "ec2:DescribeRouteTables", "denied")
    assert severities("FSX004", file_system=elsewhere, route_tables=denied) == {"fs-1": "warning"}


def test_a_vpc_that_is_not_known_is_no_other() -> None:
    unknown = replace(FILE_SYSTEM, vpc_id=None)
    assert found("FSX004", file_system=unknown) == []
    (closed,) = found("FSX004", file_system=unknown, file_system_groups=(group(SERVERS, OUT),))
    assert "into the file system" in closed.message


HOSTS = (group(JOB_GROUP, *itself(JOB_GROUP), OUT, *lustre("ingress", SERVERS)),)
BOTH = (*lustre("ingress", JOB_GROUP), *lustre("egress", JOB_GROUP))
SUBNET_RANGE = "10.0.0.0/24"


def tcp(direction: Any, ports: Any, **peers: Any) -> Any:
    return rule(direction, "tcp", ports, **peers)


@pytest.mark.parametrize(
    ("hosts", "servers", "closed"),
    [
        pytest.param(HOSTS, BOTH, [], id="by groups"),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv4=["10.0.0.0/16"]), rule("egress", ipv4=[ANY])],
            [],
            id="by the VPC's range",
        ),
        pytest.param(
            HOSTS,
            [*(tcp("ingress", each, ipv4=[SUBNET_RANGE]) for each in LUSTRE_TCP_PORTS), OUT],
            [],
            id="by the subnet's range",
        ),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv4=["10.0.0.0/25", "10.0.0.128/25"]), OUT],
            [],
            id="by two halves of the subnet",
        ),
        pytest.param(
            HOSTS,
            [tcp("ingress", (988, 988), groups=[JOB_GROUP]), OUT],
            ["TCP 1018-1023 into the file system"],
            id="988 alone",
        ),
        pytest.param(
            HOSTS,
            [
                tcp("ingress", (988, 988), groups=[JOB_GROUP]),
                tcp("ingress", (1021, 1023), groups=[JOB_GROUP]),
                OUT,
            ],
            ["TCP 1018-1023 into the file system"],
            id="988 and 1021-1023",
        ),
        pytest.param(
            HOSTS,
            [
                tcp("ingress", (988, 1020), groups=[JOB_GROUP]),
                tcp("ingress", (1021, 1023), groups=[JOB_GROUP]),
                OUT,
            ],
            [],
            id="in two pieces that meet",
        ),
        pytest.param(HOSTS, lustre("ingress", JOB_GROUP), ["out of the file system"], id="no egress"),
        pytest.param(
            HOSTS,
            [rule("ingress", ipv6=["::/0"]), OUT],
            ["into the file system"],
            id="IPv6 does not count",
        ),
        pytest.param(
            HOSTS, [rule("ingress", groups=["sg-x"]), OUT], ["into the file system"], id="another group"
        ),
        pytest.param(
            (group(JOB_GROUP, *itself(JOB_GROUP), OUT),),
            BOTH,
            ["into the hosts"],
            id="nothing into the hosts",
        ),
        pytest.param(
            (group(JOB_GROUP, *itself(JOB_GROUP), *lustre("ingress", SERVERS)),),
            BOTH,
            ["out of the hosts"],
            id="nothing out of the hosts",
        ),
    ],
)
def test_lustres_ports_are_open_both_ways(hosts: Any, servers: Any, closed: list[str]) -> None:
    findings = found("FSX004", groups=hosts, file_system_groups=(group(SERVERS, *servers),))
    assert [each.severity for each in findings] == ["error"] * len(closed)
    assert all(part in each.message for part, each in zip(closed, findings, strict=True))


def test_hosts_and_servers_may_share_a_group() -> None:
    shared = (group(JOB_GROUP, *itself(JOB_GROUP), OUT),)
    assert found("FSX004", groups=shared, file_system_groups=shared) == []


@pytest.mark.parametrize(
    "ingress",
    [
        pytest.param(rule("ingress", prefix_lists=["pl-1"]), id="a prefix list"),
        pytest.param(rule("ingress", ipv4=["10.0.0.0/25"]), id="a part of the subnet"),
    ],
)
def test_what_was_not_looked_into_is_said_and_no_error(ingress: Any) -> None:
    (finding,) = found("FSX004", file_system_groups=(group(SERVERS, ingress, OUT),))
    assert (finding.severity, finding.verified, finding.subject) == ("warning", False, SERVERS)


def test_a_file_system_in_a_subnet_that_the_job_does_not_use_is_judged_by_groups() -> None:
    """Its range is not known then, so a range may or may not hold it."""
    elsewhere = replace(FILE_SYSTEM, subnet_id="subnet-z")
    assert found("FSX004", file_system=elsewhere) == []
    by_range = (group(JOB_GROUP, *itself(JOB_GROUP), OUT, rule("ingress", ipv4=["10.0.0.0/16"])),)
    (finding,) = found("FSX004", file_system=elsewhere, groups=by_range)
    assert not finding.verified


def test_a_file_system_without_interfaces_is_not_judged() -> None:
    """While it is created there are none; FSX001 says so."""
    assert found("FSX004", file_system_groups=()) == []


CORPUS = DataRepositoryAssociation("dra-1", "AVAILABLE", "/corpus", "s3://data/corpus")


@pytest.mark.parametrize(
    ("lifecycle", "path", "told"),
    [
        ("AVAILABLE", "/corpus", False),
        ("UPDATING", "/corpus", False),
        ("MISCONFIGURED", "/corpus", True),
        ("FAILED", "/corpus/de", True),
        ("MISCONFIGURED", "/", True),
        ("MISCONFIGURED", "/corpus2", False),
    ],
)
def test_a_link_that_does_not_work_is_told_to_the_job_that_mounts_it(
    lifecycle: str, path: str, told: bool
) -> None:
    links = (replace(CORPUS, lifecycle=lifecycle, path=path),)
    assert severities("S3002", associations=links) == ({"dra-1": "warning"} if told else {})
    assert severities("S3002", associations=links, request=NO_MOUNT) == {}


def test_a_link_that_a_key_keeps_out_names_the_role_that_the_keys_policy_must_let_in() -> None:
    link = replace(CORPUS, lifecycle="MISCONFIGURED", failure="Access denied by the key of s3://data")
    (finding,) = found("S3002", associations=(link,))
    assert "/corpus on fs-1 to s3://data/corpus is MISCONFIGURED (Access denied by the key" in finding.message
    assert "AWSServiceRoleForFSxS3Access_fs-1" in finding.remedy
    assert "by itself" in finding.remedy
    assert finding.path == ("inputs", "corpus")
    (gone,) = found("S3002", associations=(replace(link, lifecycle="FAILED"),))
    assert "make it again" in gone.remedy
