"""Buckets: whether they are there, in which region, and how they are encrypted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.stub import Stubber
from moto import mock_aws

from launcher.account.facts import Bucket, BucketEncryption, DataRepositoryAssociation, parse_file_system
from launcher.account.questions.ask_storage import (
    fetch_associations,
    fetch_bucket,
    fetch_bucket_encryption,
    fetch_interfaces,
    fetch_prefix,
)
from launcher.failure_modes.model import AwsRefusal
from tests.account.read_back import read_file_system
from tests.emulator.buckets import emulated_buckets
from tests.emulator.faults import DENIED, DENIED_S3, inject

CASES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))

REGION = "us-west-2"
KEY = "arn:aws:kms:us-west-2:123456789012:key/1"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("s3", region_name=REGION)


def create(s3: Any, name: str, region: str = REGION) -> None:
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})


def test_bucket_is_found_with_its_region(s3: Any) -> None:
    create(s3, "here")
    create(boto3.client("s3", region_name="eu-west-1"), "there", "eu-west-1")

    assert fetch_bucket(s3, "here") == Bucket("here", REGION)
    assert fetch_bucket(s3, "there") == Bucket("there", "eu-west-1")
    assert fetch_bucket(s3, "nowhere") is None


def test_redirect_tells_the_region(s3: Any) -> None:
    with Stubber(s3) as stubbed:
        headers = {"HTTPHeaders": {"x-amz-bucket-region": "eu-west-1"}}
        stubbed.add_client_error("head_bucket", "301", "Moved", 301, response_meta=headers)

        assert fetch_bucket(s3, "there") == Bucket("there", "eu-west-1")


def test_bucket_of_somebody_else_is_refused_with_the_permission(s3: Any) -> None:
    with Stubber(s3) as stubbed, pytest.raises(AwsRefusal, match=r"bucket theirs \(s3:ListBucket\)"):
        stubbed.add_client_error("head_bucket", "403", "Forbidden", 403)
        fetch_bucket(s3, "theirs")


@pytest.mark.parametrize(
    "fetch",
    [
        lambda s3, owner: fetch_bucket(s3, "ours", owner),
        lambda s3, owner: fetch_bucket_encryption(s3, "ours", owner),
        lambda s3, owner: fetch_prefix(s3, "s3://ours/data", owner),
    ],
    ids=["bucket", "encryption", "prefix"],
)
def test_a_bucket_of_another_owner_than_expected_is_refused_with_both_causes(
    s3: Any, fetch: Callable[[Any, str | None], Any]
) -> None:
    create(s3, "ours")
    with emulated_buckets():
        fetch(s3, None)
        fetch(s3, "123456789012")
        with pytest.raises(AwsRefusal, match=r"\(s3:.*ours to the account 999999999999"):
            fetch(s3, "999999999999")


def test_encryption_and_key_of_a_bucket_are_read(s3: Any) -> None:
    create(s3, "bare")
    s3.delete_bucket_encryption(Bucket="bare")
    assert fetch_bucket_encryption(s3, "bare") == BucketEncryption(None, None)
    create(s3, "safe")
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}}
    s3.put_bucket_encryption(Bucket="safe", ServerSideEncryptionConfiguration={"Rules": [rule]})

    assert fetch_bucket_encryption(s3, "safe") == BucketEncryption("aws:kms", KEY)


def test_refused_encryption_names_the_permission(s3: Any) -> None:
    create(s3, "here")
    inject(s3, "GetBucketEncryption", DENIED_S3)

    with pytest.raises(AwsRefusal, match="s3:GetEncryptionConfiguration"):
        fetch_bucket_encryption(s3, "here")


ID = "fs-0123456789abcdef0"
DESCRIBED = CASES["described"]
FILTERS = [{"Name": "file-system-id", "Values": [ID]}]


@pytest.fixture
def fsx(ec2: Any) -> Any:
    return boto3.client("fsx", region_name="us-west-2")


def subnet_of(ec2: Any) -> str:
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone="us-west-2c")
    return str(made["Subnet"]["SubnetId"])


def test_everything_that_is_described_is_read() -> None:
    found = parse_file_system(DESCRIBED)

    assert (found.id, found.lifecycle, found.mount_name) == (ID, "AVAILABLE", "abcdefgh")
    assert (found.vpc_id, found.subnet_id) == ("vpc-0123456789abcdef0", "subnet-0123456789abcdef0")
    assert (found.deployment, found.storage_type, found.capacity_gib) == ("PERSISTENT_2", "SSD", 2400)
    assert (found.throughput, found.compression, found.version) == (250, "LZ4", "2.15")
    assert found.kms_key_arn == "arn:aws:kms:us-west-2:123456789012:key/1"
    assert found.efa
    failed = {"Lifecycle": "FAILED", "FailureDetails": {"Message": "no Lustre traffic on port 988"}}
    assert parse_file_system({**DESCRIBED, **failed}).failure == "no Lustre traffic on port 988"


def test_what_fsx_does_not_say_is_not_known() -> None:
    """While it is created there is neither a mount name nor an interface."""
    found = parse_file_system({"FileSystemId": ID, "Lifecycle": "CREATING"})

    assert found.security_group_ids is None
    assert found.availability_zone is None
    assert found.mount_name is None
    assert not found.efa


@pytest.mark.parametrize(("lifecycle", "serves"), CASES["lifecycles"])
def test_file_system_serves_while_it_is_available_or_updated(lifecycle: str, serves: bool) -> None:
    assert parse_file_system({**DESCRIBED, "Lifecycle": lifecycle}).serves is serves


def test_groups_of_all_interfaces_are_put_together() -> None:
    interfaces = [{"Groups": [{"GroupId": "sg-1"}, {"GroupId": "sg-2"}]}, {"Groups": [{"GroupId": "sg-1"}]}]

    assert parse_file_system(DESCRIBED, interfaces=interfaces).security_group_ids == ("sg-1", "sg-2")


def test_zone_is_that_of_the_subnet(ec2: Any, fsx: Any) -> None:
    subnet = subnet_of(ec2)
    lustre = {"DeploymentType": "SCRATCH_2"}
    made = fsx.create_file_system(
        FileSystemType="LUSTRE", StorageCapacity=1200, SubnetIds=[subnet], LustreConfiguration=lustre
    )["FileSystem"]

    found = read_file_system(fsx, ec2, made["FileSystemId"])

    assert found is not None
    assert (found.subnet_id, found.availability_zone) == (subnet, "us-west-2c")
    assert (found.deployment, found.capacity_gib) == ("SCRATCH_2", 1200)


def test_groups_are_read_from_the_interfaces_of_the_servers(ec2: Any, fsx: Any) -> None:
    subnet = subnet_of(ec2)
    vpc = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["VpcId"]
    group = ec2.create_security_group(GroupName="lustre", Description="lustre", VpcId=vpc)["GroupId"]
    made = ec2.create_network_interface(SubnetId=subnet, Groups=[group])["NetworkInterface"]
    described = {**DESCRIBED, "SubnetIds": [subnet], "NetworkInterfaceIds": [made["NetworkInterfaceId"]]}
    with Stubber(fsx) as stubbed:
        stubbed.add_response("describe_file_systems", {"FileSystems": [described]})
        found = read_file_system(fsx, ec2, ID)

    assert found is not None
    assert found.security_group_ids == (group,)


def test_interfaces_are_asked_for_in_as_many_as_a_filter_takes(ec2: Any) -> None:
    ids = [f"eni-{number}" for number in range(450)]
    with Stubber(ec2) as stubbed:
        for asked in (ids[:200], ids[200:400], ids[400:]):
            stubbed.add_response(
                "describe_network_interfaces",
                {"NetworkInterfaces": [{"NetworkInterfaceId": each} for each in asked]},
                {"Filters": [{"Name": "network-interface-id", "Values": asked}]},
            )
        found = fetch_interfaces(ec2, ids)

    assert [each["NetworkInterfaceId"] for each in found] == ids


def test_file_system_that_does_not_exist_is_none(ec2: Any, fsx: Any) -> None:
    """FSx refuses an unknown id; an empty answer means the same."""
    assert read_file_system(fsx, ec2, "fs-00000000000000000") is None
    with Stubber(fsx) as stubbed:
        stubbed.add_client_error("describe_file_systems", "FileSystemNotFound", "no such")
        assert read_file_system(fsx, ec2, ID) is None


def test_associations_of_every_page_are_read(fsx: Any) -> None:
    pages = [
        {"Associations": [association("/train", "AVAILABLE")], "NextToken": "more"},
        {"Associations": [association("/evals", "FAILED", FailureDetails={"Message": "denied"})]},
    ]
    with Stubber(fsx) as stubbed:
        operation = "describe_data_repository_associations"
        stubbed.add_response(operation, pages[0], {"Filters": FILTERS})
        stubbed.add_response(operation, pages[1], {"Filters": FILTERS, "NextToken": "more"})
        found = fetch_associations(fsx, ID)

    assert found == (
        DataRepositoryAssociation("dra-0000000train", "AVAILABLE", "/train", "s3://bucket/train"),
        DataRepositoryAssociation("dra-0000000evals", "FAILED", "/evals", "s3://bucket/evals", "denied"),
    )


@pytest.mark.parametrize(
    ("call", "fetch"),
    [
        ("FileSystems", lambda fsx, ec2: read_file_system(fsx, ec2, ID)),
        ("DataRepositoryAssociations", lambda fsx, ec2: fetch_associations(fsx, ID)),
    ],
)
def test_refusal_names_the_permission(ec2: Any, fsx: Any, call: str, fetch: Callable[..., Any]) -> None:
    inject(fsx, f"Describe{call}", DENIED)
    with pytest.raises(AwsRefusal, match=f"fsx:Describe{call}"):
        fetch(fsx, ec2)


def association(path: str, lifecycle: str, **more: Any) -> dict[str, Any]:
    return {
        "AssociationId": f"dra-0000000{path[1:]}",
        "FileSystemId": ID,
        "FileSystemPath": path,
        "DataRepositoryPath": f"s3://bucket{path}",
        "Lifecycle": lifecycle,
        **more,
    }
