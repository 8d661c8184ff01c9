"""Every account of the emulator is as new, though what is in it is made by AWS's calls only once."""

from __future__ import annotations

import json
from typing import Any

from tests.emulator.account import REPOSITORY, TAGS, EmulatedAccount, allow, emulated_account
from tests.emulator.kept_services import KeptServices


def told(account: EmulatedAccount) -> dict[str, Any]:
    """What AWS's calls say of the account."""
    ec2, s3, iam = (account.client(service) for service in ("ec2", "s3", "iam"))
    (file_system,) = account.client("fsx").describe_file_systems()["FileSystems"]
    return {
        "groups": sorted(each["GroupId"] for each in ec2.describe_security_groups()["SecurityGroups"]),
        "rules": sorted(
            each["SecurityGroupRuleId"] for each in ec2.describe_security_group_rules()["SecurityGroupRules"]
        ),
        "routes": ec2.describe_route_tables()["RouteTables"],
        "endpoints": [
            (each["VpcEndpointId"], each["State"]) for each in ec2.describe_vpc_endpoints()["VpcEndpoints"]
        ],
        "file system": (file_system["FileSystemId"], file_system["NetworkInterfaceIds"]),
        "buckets": [each["Name"] for each in s3.list_buckets()["Buckets"]],
        "object": s3.get_object(Bucket="team-data", Key="train/part-0")["Body"].read(),
        "policy": iam.get_role_policy(RoleName="training", PolicyName="job")["PolicyDocument"],
        "images": account.client("ecr").list_images(repositoryName=REPOSITORY)["imageIds"],
    }


def change(account: EmulatedAccount) -> None:
    """Leave nothing of what `told` tells as it was."""
    ec2, s3, ids = account.client("ec2"), account.client("s3"), account.ids
    ec2.create_security_group(GroupName="new", Description="new")
    (group,) = ec2.describe_security_groups(GroupIds=[ids["group"]])["SecurityGroups"]
    ec2.revoke_security_group_ingress(GroupId=ids["group"], IpPermissions=group["IpPermissions"])
    ec2.delete_route(RouteTableId=ids["route_table"], DestinationCidrBlock="0.0.0.0/0")
    ec2.delete_network_interface(NetworkInterfaceId=ids["interface"])
    endpoints = ec2.describe_vpc_endpoints()["VpcEndpoints"]
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoints[0]["VpcEndpointId"]])
    s3.create_bucket(Bucket="new", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket="team-data", Key="train/part-0", Body=b"other")
    allow(account, "training", "s3:GetObject")
    account.client("ecr").batch_delete_image(repositoryName=REPOSITORY, imageIds=[{"imageTag": TAGS[1]}])


def test_what_happens_in_an_account_is_not_in_the_next_one() -> None:
    with emulated_account() as first:
        as_new, ids = told(first), dict(first.ids)
        change(first)
        changed = told(first)
        first.ids["group"] = "sg-of-a-test"
    assert [name for name in as_new if changed[name] == as_new[name]] == []
    for _ in range(2):
        with emulated_account() as another:
            assert told(another) == as_new
            assert another.ids == ids
            change(another)


def test_services_are_restored_as_they_were_however_often() -> None:
    with emulated_account() as account:
        account.client("sqs").create_queue(QueueName="kept")
        before, kept = told(account), KeptServices()
        for _ in range(2):
            change(account)
            account.client("sqs").create_queue(QueueName="lost")
            kept.restore()
            assert told(account) == before
            (queue,) = account.client("sqs").list_queues()["QueueUrls"]
            assert queue.endswith("/kept")
            policy = account.client("iam").get_role_policy(RoleName="team", PolicyName="job")
            assert "iam:PassRole" in json.dumps(policy["PolicyDocument"])
