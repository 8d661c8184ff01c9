"""The emulated CloudFormation deletes what the services let it delete, and keeps what a policy says."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from tests.emulator.small_stacks import (
    VPC,
    Deployed,
    group,
    lustre,
    parameter,
    resource,
    subnet,
    template,
)

KEPT = {"DeletionPolicy": "Retain"}


def test_a_deleted_stack_is_gone_but_for_its_id(account: Deployed) -> None:
    account.create("stack", template(P=parameter("x", Name="/p")))

    assert account.delete("stack") == "DELETE_COMPLETE"
    assert account.gone("/p") == ["/p"]
    with pytest.raises(ClientError, match="does not exist"):
        account.status("stack")
    assert account.create("stack", template(P=parameter("x", Name="/p"))) == "CREATE_COMPLETE"


def test_what_is_to_be_retained_stays(account: Deployed) -> None:
    kept = {**parameter("k", Name="/kept"), **KEPT}
    account.create("stack", template(Gone=parameter("g", Name="/gone"), P=kept))

    assert account.delete("stack") == "DELETE_COMPLETE"
    assert account.gone("/gone", "/kept") == ["/gone"]


def test_a_bucket_with_an_old_version_in_it_stays(account: Deployed) -> None:
    versioned = resource("S3::Bucket", BucketName="data", VersioningConfiguration={"Status": "Enabled"})
    account.create("stack", template(Bucket=versioned))
    s3 = account.client("s3")
    s3.put_object(Bucket="data", Key="k", Body=b"x")
    s3.delete_object(Bucket="data", Key="k")

    assert account.delete("stack") == "DELETE_FAILED"
    assert "BucketNotEmpty" in account.reasons("stack", "DELETE_FAILED")
    for each in ("Versions", "DeleteMarkers"):
        for version in s3.list_object_versions(Bucket="data")[each]:
            s3.delete_object(Bucket="data", Key="k", VersionId=version["VersionId"])
    assert account.delete("stack") == "DELETE_COMPLETE"


def test_a_group_that_an_interface_holds_stays_and_so_does_its_vpc(account: Deployed) -> None:
    held = lustre(groups=("Group",), **KEPT)
    account.create("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Group=group(), Files=held))

    assert account.delete("stack") == "DELETE_FAILED"
    assert account.story("stack", "Files")[-1] == "DELETE_SKIPPED"
    assert account.story("stack", "Group")[-1] == account.story("stack", "Subnet")[-1] == "DELETE_FAILED"
    # The VPC is needed by both, so it is not tried.
    assert account.story("stack", "Vpc")[-1] == "CREATE_COMPLETE"


def test_a_group_that_another_groups_rule_names_stays(account: Deployed) -> None:
    # Nothing but the rule holds the group: the other one is of no stack.
    account.create("network", template(Vpc=VPC, Group=group()))
    ec2, id_, vpc = (
        account.client("ec2"),
        *(account.physical_id("network", each) for each in ("Group", "Vpc")),
    )
    other = ec2.create_security_group(GroupName="other", Description="other", VpcId=vpc)["GroupId"]
    rule = {"IpProtocol": "tcp", "FromPort": 988, "ToPort": 988, "UserIdGroupPairs": [{"GroupId": id_}]}
    ec2.authorize_security_group_ingress(GroupId=other, IpPermissions=[rule])

    assert account.delete("network") == "DELETE_FAILED"
    assert f"DependencyViolation: The security group '{id_}'" in account.reasons("network", "DELETE_FAILED")


def test_a_vpc_with_a_strangers_group_in_it_stays(account: Deployed) -> None:
    account.create("stack", template(Vpc=VPC))
    vpc = account.physical_id("stack", "Vpc")
    account.client("ec2").create_security_group(GroupName="strange", Description="strange", VpcId=vpc)

    assert account.delete("stack") == "DELETE_FAILED"


def test_a_failed_deletion_can_go_on_without_what_failed(account: Deployed) -> None:
    account.create("stack", template(Bucket=resource("S3::Bucket", BucketName="data")))
    account.client("s3").put_object(Bucket="data", Key="k", Body=b"x")
    with pytest.raises(ClientError, match="only be specified for stacks in the DELETE_FAILED state"):
        account.delete("stack", RetainResources=["Bucket"])

    assert account.delete("stack") == "DELETE_FAILED"
    assert account.delete("stack", RetainResources=["Bucket"]) == "DELETE_COMPLETE"
    assert account.client("s3").list_objects_v2(Bucket="data")["KeyCount"] == 1


def test_a_protected_stack_is_not_deleted(account: Deployed) -> None:
    account.create("stack", template(P=parameter("x")))
    account.api.update_termination_protection(StackName="stack", EnableTerminationProtection=True)

    with pytest.raises(ClientError, match="while TerminationProtection is enabled"):
        account.delete("stack")
    assert account.status("stack") == "CREATE_COMPLETE"


def test_a_creation_that_fails_takes_back_what_it_made(account: Deployed) -> None:
    broken = {**parameter({"Fn::ImportValue": "nothing"}), "DependsOn": ["P"]}

    wanted = template(P=parameter("x", Name="/p"), Broken=broken)
    assert account.create("stack", wanted) == "ROLLBACK_COMPLETE"
    assert account.gone("/p") == ["/p"]
    with pytest.raises(ClientError, match="ROLLBACK_COMPLETE state and can not be updated"):
        account.update("stack", template(P=parameter("x", Name="/p")))


def test_leftovers_are_found_by_their_tag(account: Deployed) -> None:
    tags = [{"Key": "slipway:cluster", "Value": "dev"}]
    vpc = resource("EC2::VPC", CidrBlock="10.0.0.0/16", Tags=tags)
    files = lustre(**KEPT)
    files["Properties"]["Tags"] = tags
    account.create("stack", template(Vpc={**vpc, **KEPT}, Subnet=subnet("10.0.0.0/24", **KEPT), Files=files))
    account.delete("stack")

    found = account.client("resourcegroupstaggingapi").get_resources(
        TagFilters=[{"Key": "slipway:cluster", "Values": ["dev"]}]
    )["ResourceTagMappingList"]
    assert sorted(each["ResourceARN"].split(":")[2] for each in found) == ["ec2", "fsx"]


def test_what_somebody_else_deleted_counts_as_deleted(account: Deployed) -> None:
    account.create("stack", template(Bucket=resource("S3::Bucket", BucketName="data")))
    account.client("s3").delete_bucket(Bucket="data")

    assert account.delete("stack") == "DELETE_COMPLETE"
