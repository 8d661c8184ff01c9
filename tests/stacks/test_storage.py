"""The storage stack: buckets, the one for code, and the file system, new or existing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from botocore.stub import Stubber
from constructs.training_buckets import TrainingBuckets
from moto import mock_aws

from launcher.backends.sagemaker import upload as transfers
from launcher.backends.sagemaker.upload import upload_code
from launcher.cluster.files import ClusterFileError
from launcher.cluster.names import PARTS
from launcher.cluster.specification import ClusterSpec
from launcher.planning.training_plan import SourcePackage
from launcher.source.packaging import SOURCE_NAME, package_digest
from launcher.source.tree import read_source
from stacks.account.existing_file_system import with_file_system_in_full
from tests.emulator.buckets import emulated_buckets
from tests.emulator.iam_policy import flat
from tests.stacks.synthesis import Synthesized, dev_spec, new_stack, resources_of, synthesize, template_of
from tests.stacks.test_slipway_app import parsed

N = "NewerNoncurrentVersions"
KEPT = {"DeletionPolicy": "RetainExceptOnCreate", "UpdateReplacePolicy": "Retain"}
LOGS = "AccessLogs"
HOLDING_DATA = {"AWS::S3::Bucket", "AWS::FSx::FileSystem", "AWS::KMS::Key"}


@pytest.mark.parametrize("policy", ["DeletionPolicy", "UpdateReplacePolicy"])
def test_retained_data_outlive_their_stack(large: Synthesized, policy: str) -> None:
    resources = large.template("storage")["Resources"].items()
    kept = [each for name, each in resources if each["Type"] in HOLDING_DATA and LOGS not in name]

    assert {each["Type"] for each in kept} == HOLDING_DATA
    assert {each[policy] for each in kept} == {KEPT[policy]}


@pytest.mark.parametrize("policy", ["DeletionPolicy", "UpdateReplacePolicy"])
@pytest.mark.parametrize(
    "type_",
    [
        "AWS::EC2::SecurityGroup",
        "AWS::EC2::SecurityGroupIngress",
        "AWS::EC2::SecurityGroupEgress",
        "AWS::S3::BucketPolicy",
    ],
)
def test_retained_data_stay_in_reach(large: Synthesized, type_: str, policy: str) -> None:
    found = large.resources("storage", type_).items()

    assert {each.get(policy) for name, each in found if LOGS not in name} == {KEPT[policy]}


def test_the_log_of_readers_stays_even_where_its_creation_is_taken_back(large: Synthesized) -> None:
    """It may hold records by then, and CloudFormation deletes no bucket that holds something."""
    of_logs = [each for name, each in large.template("storage")["Resources"].items() if LOGS in name]

    assert len(of_logs) == 2
    assert {each["DeletionPolicy"] for each in of_logs} == {"Retain"}


def test_links_of_a_retained_file_system_stay_but_make_room_for_others() -> None:
    links = [{"path": "/data", "s3_uri": "s3://corpus"}]
    lustre = {"deployment": "SCRATCH_2", "capacity_gib": 1200, "associations": links}
    storage = synthesize(dev_spec(lustre=lustre, removal_policy="retain"))
    (link,) = storage.resources("storage", "AWS::FSx::DataRepositoryAssociation").values()

    assert (link["DeletionPolicy"], link["UpdateReplacePolicy"]) == ("RetainExceptOnCreate", "Delete")


def test_a_link_leads_to_a_bucket_of_the_cluster_by_what_it_is_for() -> None:
    lustre = {"deployment": "SCRATCH_2", "capacity_gib": 1200}
    links = [{"path": "/checkpoints", "bucket": "checkpoints"}, {"path": "/out", "bucket": "output"}]
    storage = synthesize(dev_spec(lustre={**lustre, "associations": links}))
    found = storage.resources("storage", "AWS::FSx::DataRepositoryAssociation").values()
    buckets = storage.resources("storage", "AWS::S3::Bucket")
    linked = [each["Properties"]["DataRepositoryPath"]["Fn::Join"][1] for each in found]

    assert [parts[0] for parts in linked] == ["s3://", "s3://"]
    assert ["Checkpoints" in parts[1]["Ref"] for parts in linked] == [True, False]
    assert {parts[1]["Ref"] for parts in linked} < buckets.keys()


def test_fsx_may_use_the_key_of_the_cluster_for_links_through_s3_alone() -> None:
    lustre = {"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 1200}
    links = [{"path": "/checkpoints", "bucket": "checkpoints"}]

    def statements(associations: list[dict[str, str]]) -> list[dict[str, Any]]:
        spec = dev_spec(lustre={**lustre, "associations": associations}, encryption="new-key")
        (key,) = synthesize(spec).resources("storage", "AWS::KMS::Key").values()
        found: list[dict[str, Any]] = key["Properties"]["KeyPolicy"]["Statement"]
        return found

    alone, (*before, let_in) = statements([]), statements(links)
    assert before == alone
    assert {"kms:Decrypt", "kms:GenerateDataKey*"} < set(let_in["Action"])
    assert let_in["Condition"]["StringLike"] == {"kms:ViaService": "s3.us-west-2.amazonaws.com*"}
    role = let_in["Condition"]["ArnLike"]["aws:PrincipalArn"]["Fn::Join"][1][-1]
    assert role.endswith("/s3.data-source.lustre.fsx.*/AWSServiceRoleForFSxS3Access_*")


def test_nothing_of_a_cluster_to_destroy_is_retained(dev: Synthesized) -> None:
    for part in dev.parts:
        resources = dev.template(part)["Resources"].values()
        assert not [each for each in resources if "Retain" in each.get("DeletionPolicy", "")]


def test_network_data_and_queue_of_a_cluster_to_keep_cannot_be_deleted_by_mistake(large: Synthesized) -> None:
    for stack in (large.stacks.network, large.stacks.storage, large.stacks.queue):
        assert stack.termination_protection is True
    assert not large.stacks.access.termination_protection


def test_data_of_the_dev_cluster_go_with_their_stack(dev: Synthesized) -> None:
    resources = dev.template("storage")["Resources"].values()

    assert {each["DeletionPolicy"] for each in resources if each["Type"] in HOLDING_DATA} == {"Delete"}
    for part in PARTS:
        assert not getattr(dev.stacks, part).termination_protection


def test_file_system_and_buckets_have_the_key_of_the_cluster(large: Synthesized) -> None:
    (key,) = large.resources("storage", "AWS::KMS::Key")
    (file_system,) = large.resources("storage", "AWS::FSx::FileSystem").values()
    keys = [
        rule["ServerSideEncryptionByDefault"].get("KMSMasterKeyID")
        for bucket in large.resources("storage", "AWS::S3::Bucket").values()
        for rule in bucket["Properties"]["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    ]

    assert file_system["Properties"]["KmsKeyId"] == {"Fn::GetAtt": [key, "Arn"]}
    # The fourth is the bucket of the access logs, into which S3 delivers only without a key.
    assert (keys.count({"Fn::GetAtt": [key, "Arn"]}), keys.count(None)) == (3, 1)


def test_existing_buckets_are_left_as_they_are() -> None:
    names = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
    storage = synthesize(dev_spec(buckets=names))

    assert not storage.resources("storage", "AWS::S3::Bucket")
    assert not storage.resources("storage", "AWS::S3::BucketPolicy")


def test_old_checkpoints_are_bounded_by_their_number() -> None:
    storage = synthesize(dev_spec(buckets={"checkpoint_versions": 3}))
    bounds = {
        name: [
            (
                rule["NoncurrentVersionExpiration"]["NoncurrentDays"],
                rule["NoncurrentVersionExpiration"].get(N),
            )
            for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]
            if "NoncurrentVersionExpiration" in rule
        ]
        for name, bucket in storage.resources("storage", "AWS::S3::Bucket").items()
    }

    (checkpoints,) = [bound for name, bound in bounds.items() if "Checkpoints" in name]
    assert checkpoints == [(14, None), (1, 3)]
    assert all((1, 3) not in bound for name, bound in bounds.items() if "Checkpoints" not in name)


def test_only_the_missing_buckets_are_created() -> None:
    storage = synthesize(dev_spec(buckets={"checkpoints": "our-checkpoints"}))

    assert len(storage.resources("storage", "AWS::S3::Bucket")) == 3  # code, output and the access logs


def test_stack_of_data_stands_after_the_network_only(large: Synthesized) -> None:
    assert [stack.stack_name for stack in large.stacks.storage.dependencies] == ["slipway-p5-large-network"]


BUCKET = "our-code"
Attack = Callable[[Any, str], Any]


@pytest.fixture(scope="module")
def policy() -> str:
    stack = new_stack()
    TrainingBuckets(stack, "Buckets", removal_policy=cdk.RemovalPolicy.RETAIN)
    template = template_of(stack)
    (bucket,) = [name for name in resources_of(template, "AWS::S3::Bucket") if name.startswith("BucketsCode")]
    (document,) = [
        each["Properties"]["PolicyDocument"]
        for each in resources_of(template, "AWS::S3::BucketPolicy").values()
        if each["Properties"]["Bucket"]["Ref"] == bucket
    ]
    return json.dumps(flat(document, {f"{bucket}.Arn": f"arn:aws:s3:::{BUCKET}"}))


@pytest.fixture
def s3(policy: str, credentials: None) -> Iterator[Any]:
    with mock_aws(), emulated_buckets():
        s3 = boto3.client("s3", "us-east-1")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
        s3.put_bucket_policy(Bucket=BUCKET, Policy=policy)
        yield s3


@pytest.fixture
def package(tmp_path: Path) -> SourcePackage:
    (tmp_path / "train.py").write_text("print('ours')\n")
    return package_of(tmp_path)


def package_of(folder: Path) -> SourcePackage:
    source = read_source(folder, "train.py")
    return SourcePackage(source, f"s3://{BUCKET}/code/{package_digest(str(source.digest), SOURCE_NAME)}")


def put(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"EVIL", Metadata={"slipway-code": key.split("/")[1]})


def put_where_nothing_lies(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=b"EVIL", IfNoneMatch="*")


def put_in_parts(s3: Any, key: str, **condition: str) -> None:
    upload = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
    part = {"Bucket": BUCKET, "Key": key, "UploadId": upload}
    tag = s3.upload_part(**part, PartNumber=1, Body=b"EVIL")["ETag"]
    s3.complete_multipart_upload(
        **part, MultipartUpload={"Parts": [{"ETag": tag, "PartNumber": 1}]}, **condition
    )


def put_in_parts_where_nothing_lies(s3: Any, key: str) -> None:
    put_in_parts(s3, key, IfNoneMatch="*")


def copy(s3: Any, key: str) -> None:
    s3.put_object(Bucket=BUCKET, Key="elsewhere", Body=b"EVIL")
    s3.copy_object(Bucket=BUCKET, Key=key, CopySource={"Bucket": BUCKET, "Key": "elsewhere"})


@pytest.mark.parametrize(
    ("attack", "answer"),
    [
        (put, "AccessDenied"),
        (put_where_nothing_lies, "PreconditionFailed"),
        (put_in_parts, "AccessDenied"),
        (put_in_parts_where_nothing_lies, "PreconditionFailed"),
        (copy, "AccessDenied"),
    ],
)
@pytest.mark.parametrize("name", ["source.tar.gz", "slipway.pyz"])
def test_nobody_can_replace_code(
    s3: Any, package: SourcePackage, name: str, attack: Attack, answer: str
) -> None:
    upload_code(s3, package)
    key = f"code/{package.digest}/{name}"
    before = s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    with pytest.raises(ClientError, match=answer):
        attack(s3, key)
    assert s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == before


@pytest.mark.parametrize("part_bytes", [transfers.PART_BYTES, 5 * 1024 * 1024], ids=["whole", "in parts"])
def test_the_launcher_gets_its_code_there(
    s3: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    monkeypatch.setattr(transfers, "PART_BYTES", part_bytes)
    (tmp_path / "train.py").write_bytes(os.urandom(6 * 1024 * 1024))
    upload_code(s3, package_of(tmp_path))
    assert s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 2


def test_other_objects_of_the_bucket_may_be_replaced(s3: Any) -> None:
    for body in (b"1", b"2"):
        s3.put_object(Bucket=BUCKET, Key="elsewhere", Body=body)
    assert s3.get_object(Bucket=BUCKET, Key="elsewhere")["Body"].read() == b"2"


ID = "fs-0123456789abcdef0"
FULL = {
    "id": ID,
    "mount_name": "abcdefgh",
    "subnet_id": "subnet-0fedcba9876543210",
    "availability_zone": "us-west-2a",
    "security_group_id": "sg-0fedcba9876543210",
}
DESCRIBED: dict[str, Any] = {
    "FileSystemId": ID,
    "FileSystemType": "LUSTRE",
    "Lifecycle": "AVAILABLE",
    "SubnetIds": ["subnet-0fedcba9876543210"],
    "NetworkInterfaceIds": ["eni-0fedcba9876543210", "eni-1fedcba9876543210"],
    "LustreConfiguration": {"MountName": "abcdefgh"},
}


@pytest.fixture(scope="module")
def guest() -> Synthesized:
    watched = {"observability": {"free_capacity_percent": 20}, "removal_policy": "retain"}
    return synthesize(dev_spec(lustre={"existing": FULL}, **watched))


def test_nothing_is_created_for_it(guest: Synthesized) -> None:
    types = {each["Type"] for each in guest.template("storage")["Resources"].values()}

    assert types == {"AWS::S3::Bucket", "AWS::S3::BucketPolicy"}


def test_the_manifest_names_it(guest: Synthesized) -> None:
    lustre = parsed(guest).lustre

    assert lustre is not None
    assert lustre.model_dump() == FULL


def test_jobs_and_launchers_may_look_at_it(guest: Synthesized) -> None:
    text = json.dumps(guest.template("access"))

    assert text.count("fsx:DescribeFileSystems") == 2


def test_its_free_space_is_watched_though_its_size_is_not_known(guest: Synthesized) -> None:
    alarms = [
        each["Properties"] for each in guest.resources("observability", "AWS::CloudWatch::Alarm").values()
    ]
    (full,) = [each for each in alarms if each["Threshold"] == 20]
    expression, *metrics = full["Metrics"]

    assert expression["Expression"] == "100 * free / (free + used)"
    assert {each["MetricStat"]["Metric"]["MetricName"] for each in metrics} == {
        "FreeDataStorageCapacity", "PhysicalDiskUsage",
    }  # fmt: skip
    assert all(ID in json.dumps(each["MetricStat"]["Metric"]["Dimensions"]) for each in metrics)


def test_all_of_it_is_looked_up_by_the_id() -> None:
    found = looked_up(dev_spec(lustre={"existing": ID}))

    assert found.lustre is not None and found.lustre.existing is not None
    assert found.lustre.existing.model_dump() == FULL


def test_a_zone_is_found_by_its_id_too() -> None:
    found = looked_up(dev_spec(lustre={"existing": ID}, availability_zones=["usw2-az1"]))

    assert found.lustre is not None and found.lustre.existing is not None
    assert found.lustre.existing.availability_zone == "us-west-2a"


def test_of_its_groups_the_servers_is_taken() -> None:
    """One with EFA stands in the group of the hosts, too."""
    subnet = {"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"}
    vpc = {"vpc_id": "vpc-0123456789abcdef0", "subnets": [subnet], "security_group_id": "sg-01234567"}
    spec = dev_spec(lustre={"existing": ID}, availability_zones=[], vpc={"existing": vpc})
    found = looked_up(spec, groups=["sg-01234567", FULL["security_group_id"]])

    assert found.lustre is not None and found.lustre.existing is not None
    assert found.lustre.existing.security_group_id == FULL["security_group_id"]


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ({"FileSystemType": "WINDOWS"}, "of type WINDOWS"),
        ({"Lifecycle": "FAILED"}, "is FAILED, so no job could mount it"),
        ({"Lifecycle": "CREATING"}, "is CREATING"),
    ],
)
def test_what_cannot_be_mounted_is_refused(described: dict[str, Any], told: str) -> None:
    with pytest.raises(ClusterFileError, match=told):
        looked_up(dev_spec(lustre={"existing": ID}), described={**DESCRIBED, **described})


def test_a_file_system_in_another_zone_is_refused() -> None:
    with pytest.raises(ClusterFileError, match=r"is in us-west-2a \(usw2-az1\), but .* run in us-west-2c"):
        looked_up(dev_spec(lustre={"existing": ID}, availability_zones=["us-west-2c"]))


def test_several_groups_of_which_none_is_known_are_refused() -> None:
    with pytest.raises(ClusterFileError, match=r"2 security groups .*Name it in full"):
        looked_up(dev_spec(lustre={"existing": ID}), groups=["sg-01234567", "sg-12345678"])


def test_without_permission_it_says_how_to_name_it_in_full() -> None:
    fsx, ec2 = clients()
    with Stubber(fsx) as stub:
        stub.add_client_error("describe_file_systems", "AccessDeniedException", "not allowed")
        with pytest.raises(ClusterFileError, match=r"AccessDenied.*in full: `existing: \{id: fs-"):
            with_file_system_in_full(dev_spec(lustre={"existing": ID}), fsx=fsx, ec2=ec2)


def test_without_credentials_it_says_so() -> None:
    class Nobody:
        def describe_file_systems(self, **_: Any) -> Any:
            raise NoCredentialsError

    with pytest.raises(ClusterFileError, match=r"Unable to locate credentials\. Use credentials that may"):
        with_file_system_in_full(dev_spec(lustre={"existing": ID}), fsx=Nobody(), ec2=None)


@pytest.mark.parametrize("lustre", [None, {"existing": FULL}])
def test_nothing_is_asked_where_all_is_known(lustre: dict[str, Any] | None) -> None:
    spec = dev_spec(lustre=lustre)

    assert with_file_system_in_full(spec, fsx=None, ec2=None) == spec


def clients() -> tuple[Any, Any]:
    keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
    fsx, ec2 = (boto3.client(name, region_name="us-west-2", **keys) for name in ("fsx", "ec2"))
    return fsx, ec2


def looked_up(
    spec: ClusterSpec, *, described: dict[str, Any] = DESCRIBED, groups: list[str] | None = None
) -> ClusterSpec:
    subnet, interface = described["SubnetIds"][0], described["NetworkInterfaceIds"][0]
    zone = {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1"}
    stands_in = [{"GroupId": each} for each in groups or [FULL["security_group_id"]]]
    fsx, ec2 = clients()
    with Stubber(fsx) as of_fsx, Stubber(ec2) as of_ec2:
        of_fsx.add_response("describe_file_systems", {"FileSystems": [described]}, {"FileSystemIds": [ID]})
        of_ec2.add_response(
            "describe_subnets", {"Subnets": [{"SubnetId": subnet, **zone}]}, {"SubnetIds": [subnet]}
        )
        of_ec2.add_response(
            "describe_network_interfaces",
            {"NetworkInterfaces": [{"Groups": stands_in}]},
            {"NetworkInterfaceIds": [interface]},
        )
        return with_file_system_in_full(spec, fsx=fsx, ec2=ec2)
