"""A cluster on a file system that exists: what is looked up, and that nothing of it is touched."""

from __future__ import annotations

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import NoCredentialsError
from botocore.stub import Stubber

from launcher.cluster.files import ClusterFileError
from launcher.cluster.specification import ClusterSpec
from stacks.existing_file_system import with_file_system_in_full
from tests.stacks.synthesis import Synthesized, dev_spec, synthesize
from tests.stacks.test_manifest import parsed

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
    subnet, zone = (
        described["SubnetIds"][0],
        {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1"},
    )
    interface = described["NetworkInterfaceIds"][0]
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
