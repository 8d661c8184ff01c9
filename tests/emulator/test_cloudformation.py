"""The emulated CloudFormation bites where AWS's does."""

from __future__ import annotations

import json

import pytest
from botocore.exceptions import ClientError

from tests.emulator.small_stacks import (
    VPC,
    Deployed,
    Template,
    exported,
    group,
    lustre,
    parameter,
    ref,
    resource,
    subnet,
    template,
)

# Exports


def test_an_export_that_is_imported_cannot_go(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"}, Name="/taken")))

    assert account.update("giver", template(P=parameter("y"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be deleted as it is in use by taker" in account.reasons(
        "giver", "UPDATE_ROLLBACK_IN_PROGRESS"
    )
    assert account.api.list_imports(ExportName="shared")["Imports"] == ["taker"]
    # What the update had changed is as it was.
    name = account.physical_id("giver", "P")
    assert account.client("ssm").get_parameter(Name=name)["Parameter"]["Value"] == "x"


def test_the_value_of_an_export_that_is_imported_cannot_change(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"})))

    assert account.update("giver", template(exported("b"), P=parameter("x"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Export shared cannot be updated as it is in use by taker" in account.reasons(
        "giver", "UPDATE_ROLLBACK_IN_PROGRESS"
    )
    assert account.api.list_exports()["Exports"][0]["Value"] == "a"


def test_an_export_goes_once_nobody_imports_it(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"})))
    account.update("taker", template(P=parameter("own")))

    assert account.update("giver", template(P=parameter("x"))) == "UPDATE_COMPLETE"
    assert account.api.list_exports()["Exports"] == []
    with pytest.raises(ClientError, match="is not imported by any stack"):
        account.api.list_imports(ExportName="shared")


def test_a_stack_whose_export_is_imported_cannot_be_deleted(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"})))

    assert account.delete("giver") == "DELETE_FAILED"
    assert account.delete("taker") == account.delete("giver") == "DELETE_COMPLETE"


def test_two_stacks_cannot_export_one_name(account: Deployed) -> None:
    account.create("first", template(exported("a"), P=parameter("x")))

    assert account.create("second", template(exported("b"), P=parameter("x"))) == "ROLLBACK_COMPLETE"


def test_an_import_that_leads_nowhere_fails_the_stack(account: Deployed) -> None:
    status = account.create("taker", template(P=parameter({"Fn::ImportValue": "nothing"})))

    assert status == "ROLLBACK_COMPLETE"
    assert "No export named nothing found" in account.reasons("taker", "CREATE_FAILED")


def test_the_output_of_another_stack_is_read_but_not_held(account: Deployed) -> None:
    read = {"Fn::GetStackOutput": {"StackName": "giver", "OutputName": "Out"}}
    outputs = {"Out": {"Value": "a"}}
    account.create("giver", template(outputs, P=parameter("x")))
    account.create("taker", template(P=parameter(read, Name="/taken")))

    assert account.client("ssm").get_parameter(Name="/taken")["Parameter"]["Value"] == "a"
    assert account.update("giver", template(P=parameter("x"))) == "UPDATE_COMPLETE"
    lost = account.update("taker", template(P=parameter(read, Name="/taken", Description="new")))
    assert lost == "UPDATE_ROLLBACK_COMPLETE"
    assert "No output Out of the stack giver found" in account.reasons("taker", "UPDATE_FAILED")


# Updates


def test_an_update_without_changes_is_refused(account: Deployed) -> None:
    account.create("stack", template(P=parameter("x")))

    with pytest.raises(ClientError, match="No updates are to be performed"):
        account.update("stack", template(P=parameter("x")))


def test_an_update_changes_what_stands(account: Deployed) -> None:
    account.create("stack", template(P=parameter("x", Name="/p")))

    assert account.update("stack", template(P=parameter("y", Name="/p"))) == "UPDATE_COMPLETE"
    assert account.client("ssm").get_parameter(Name="/p")["Parameter"]["Value"] == "y"
    assert account.story("stack", "P")[-2:] == ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]


def test_a_create_only_property_replaces_and_what_refers_to_it_follows(account: Deployed) -> None:
    account.create("stack", template(Vpc=VPC, Group=group(), P=parameter(ref("Group"), Name="/group")))
    old = account.physical_id("stack", "Group")
    other = resource("EC2::SecurityGroup", GroupDescription="other", VpcId=ref("Vpc"))

    account.update("stack", template(Vpc=VPC, Group=other, P=parameter(ref("Group"), Name="/group")))

    new = account.physical_id("stack", "Group")
    assert new != old
    assert account.client("ssm").get_parameter(Name="/group")["Parameter"]["Value"] == new
    assert account.story("stack", "Group")[-2:] == ["DELETE_IN_PROGRESS", "DELETE_COMPLETE"]
    with pytest.raises(ClientError, match="NotFound"):
        account.client("ec2").describe_security_groups(GroupIds=[old])


def test_a_replacement_leaves_the_old_where_the_policy_says_so(account: Deployed) -> None:
    keeping = {"UpdateReplacePolicy": "Retain"}
    account.create("stack", template(Vpc=VPC, Group=group()))
    old = account.physical_id("stack", "Group")
    other = resource("EC2::SecurityGroup", keeping, GroupDescription="other", VpcId=ref("Vpc"))

    assert account.update("stack", template(Vpc=VPC, Group=other)) == "UPDATE_COMPLETE"
    assert account.client("ec2").describe_security_groups(GroupIds=[old])["SecurityGroups"]
    assert account.story("stack", "Group")[-1] == "DELETE_SKIPPED"


def test_what_has_a_name_of_its_own_cannot_be_replaced(account: Deployed) -> None:
    def role(path: str) -> Template:
        return resource("IAM::Role", RoleName="named", Path=path, AssumeRolePolicyDocument={"Statement": []})

    account.create("stack", template(Role=role("/a/")))

    assert account.update("stack", template(Role=role("/b/"))) == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing. Rename named" in account.reasons(
        "stack", "UPDATE_FAILED"
    )
    assert account.client("iam").get_role(RoleName="named")["Role"]["Path"] == "/a/"


def test_a_new_subnet_over_the_old_one_fails(account: Deployed) -> None:
    account.create("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/26")))
    old = account.physical_id("stack", "Subnet")

    assert (
        account.update("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"))) == "UPDATE_ROLLBACK_COMPLETE"
    )
    assert "InvalidSubnet.Conflict" in account.reasons("stack", "UPDATE_FAILED")
    assert account.physical_id("stack", "Subnet") == old


def test_a_file_system_grows_in_place_and_never_shrinks(account: Deployed) -> None:
    def stack(capacity: int) -> Template:
        return template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=lustre(capacity))

    account.create("stack", stack(1200))
    id_ = account.physical_id("stack", "Files")

    assert account.update("stack", stack(2400)) == "UPDATE_COMPLETE"
    (found,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert (found["FileSystemId"], found["StorageCapacity"]) == (id_, 2400)
    assert account.update("stack", stack(1200)) == "UPDATE_ROLLBACK_COMPLETE"


def test_another_kind_of_file_system_is_another_file_system(account: Deployed) -> None:
    before = lustre()
    after = {**before, "Properties": {**before["Properties"]}}
    after["Properties"]["LustreConfiguration"] = {"DeploymentType": "PERSISTENT_2"}
    account.create("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=before))
    old = account.physical_id("stack", "Files")

    account.update("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=after))
    assert account.physical_id("stack", "Files") != old


def test_an_update_that_cannot_be_taken_back_leaves_the_stack_failed(account: Deployed) -> None:
    base = {"Vpc": VPC, "Subnet": subnet("10.0.0.0/24")}
    account.create("stack", template(**base, Files=lustre(1200)))
    broken = {**parameter({"Fn::ImportValue": "nothing"}), "DependsOn": ["Files"]}

    status = account.update("stack", template(**base, Files=lustre(2400), P=broken))

    assert status == "UPDATE_ROLLBACK_FAILED"
    with pytest.raises(ClientError, match="UPDATE_ROLLBACK_FAILED state and can not be updated"):
        account.update("stack", template(**base, Files=lustre(2400)))


def test_a_queue_neither_gains_nor_loses_its_fair_shares(account: Deployed) -> None:
    policy = resource("Batch::SchedulingPolicy", FairsharePolicy={})
    fair = resource("Batch::JobQueue", Priority=1, SchedulingPolicyArn=ref("Policy"))
    plain = resource("Batch::JobQueue", Priority=1)

    account.create("fifo", template(Queue=plain))
    assert account.update("fifo", template(Queue=fair, Policy=policy)) == "UPDATE_ROLLBACK_COMPLETE"
    account.create("fair", template(Queue=fair, Policy=policy))
    assert account.update("fair", template(Queue=plain)) == "UPDATE_ROLLBACK_COMPLETE"


def test_what_is_no_longer_declared_is_deleted_or_kept(account: Deployed) -> None:
    kept = {**parameter("k", Name="/kept"), "DeletionPolicy": "Retain"}
    account.create("stack", template(A=parameter("a"), Gone=parameter("g", Name="/gone"), Kept=kept))

    assert account.update("stack", template(A=parameter("a"))) == "UPDATE_COMPLETE"
    assert account.story("stack", "Kept")[-1] == "DELETE_SKIPPED"
    assert account.client("ssm").get_parameters(Names=["/gone", "/kept"])["InvalidParameters"] == ["/gone"]


def test_a_cleanup_that_fails_leaves_an_orphan_and_a_complete_stack(account: Deployed) -> None:
    base = {"Vpc": VPC, "Subnet": subnet("10.0.0.0/24")}
    held = lustre(groups=("Group",), DeletionPolicy="Retain")
    account.create("stack", template(**base, Group=group(), Files=held))
    id_ = account.physical_id("stack", "Group")

    assert account.update("stack", template(**base)) == "UPDATE_COMPLETE"
    assert account.story("stack", "Group")[-1] == "DELETE_FAILED"
    assert account.client("ec2").describe_security_groups(GroupIds=[id_])["SecurityGroups"]


def test_what_the_emulator_does_not_know_fails_aloud(account: Deployed) -> None:
    assert account.create("stack", template(Table=resource("DynamoDB::Table"))) == "ROLLBACK_COMPLETE"
    assert "not emulated: resources of the type AWS::DynamoDB::Table" in account.reasons(
        "stack", "CREATE_FAILED"
    )
    with pytest.raises(ClientError, match="not emulated"):
        account.api.create_change_set(StackName="stack", ChangeSetName="c", TemplateBody="{}")


def test_a_file_system_gets_no_metadata_configuration_later(account: Deployed) -> None:
    after = lustre()
    after["Properties"]["LustreConfiguration"] = {
        "DeploymentType": "SCRATCH_2",
        "MetadataConfiguration": {"Mode": "AUTOMATIC"},
    }
    account.create("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=lustre()))

    status = account.update("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=after))
    assert status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_template_is_answered_in_ascii(account: Deployed) -> None:
    body = json.dumps(template(P=parameter("naïve")), ensure_ascii=False)
    account.api.create_stack(StackName="stack", TemplateBody=body)

    # boto3 makes a mapping of an answer that is JSON.
    assert account.api.get_template(StackName="stack")["TemplateBody"] == template(P=parameter("na?ve"))


def test_an_output_can_be_read_by_the_id_of_its_stack(account: Deployed) -> None:
    account.create("giver", template({"Out": {"Value": "a"}}, P=parameter("x")))
    id_ = account.api.describe_stacks(StackName="giver")["Stacks"][0]["StackId"]
    read = {"Fn::GetStackOutput": {"StackName": id_, "OutputName": "Out"}}

    assert account.create("taker", template(P=parameter(read))) == "CREATE_COMPLETE"


def test_a_second_link_cannot_lie_over_the_first(account: Deployed) -> None:
    def stack(bucket: str) -> Template:
        link = resource(
            "FSx::DataRepositoryAssociation",
            FileSystemId=ref("Files"),
            FileSystemPath="/data",
            DataRepositoryPath=f"s3://{bucket}",
        )
        return template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"), Files=lustre(), Link=link)

    account.create("stack", stack("one"))

    assert account.update("stack", stack("two")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "overlaps with /data" in account.reasons("stack", "UPDATE_FAILED")
