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
    with_files,
)

# Exports


def test_an_export_that_is_imported_neither_goes_nor_changes(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"})))

    for wanted, verb in (
        (template(P=parameter("y")), "deleted"),
        (template(exported("b"), P=parameter("y")), "updated"),
    ):
        why = f"Export shared cannot be {verb} as it is in use by taker"
        account.refuses("giver", wanted, why, "UPDATE_ROLLBACK_IN_PROGRESS")
        assert account.api.list_imports(ExportName="shared")["Imports"] == ["taker"]
        assert account.api.list_exports()["Exports"][0]["Value"] == "a"
        # What the update had changed is as it was.
        assert account.parameter(account.physical_id("giver", "P")) == "x"
    assert account.delete("giver") == "DELETE_FAILED"


def test_an_export_goes_once_nobody_imports_it(account: Deployed) -> None:
    account.create("giver", template(exported("a"), P=parameter("x")))
    account.create("taker", template(P=parameter({"Fn::ImportValue": "shared"})))
    account.update("taker", template(P=parameter("own")))

    assert account.update("giver", template(P=parameter("x"))) == "UPDATE_COMPLETE"
    assert account.api.list_exports()["Exports"] == []
    with pytest.raises(ClientError, match="is not imported by any stack"):
        account.api.list_imports(ExportName="shared")
    assert account.delete("giver") == "DELETE_COMPLETE"


def test_two_stacks_cannot_export_one_name_and_an_import_that_leads_nowhere_fails(account: Deployed) -> None:
    account.create("first", template(exported("a"), P=parameter("x")))

    assert account.create("second", template(exported("b"), P=parameter("x"))) == "ROLLBACK_COMPLETE"
    status = account.create("taker", template(P=parameter({"Fn::ImportValue": "nothing"})))

    assert status == "ROLLBACK_COMPLETE"
    assert "No export named nothing found" in account.reasons("taker", "CREATE_FAILED")


def test_the_output_of_another_stack_is_read_but_not_held(account: Deployed) -> None:
    read = {"Fn::GetStackOutput": {"StackName": "giver", "OutputName": "Out"}}
    outputs = {"Out": {"Value": "a"}}
    account.create("giver", template(outputs, P=parameter("x")))
    account.create("taker", template(P=parameter(read, Name="/taken")))
    by_id = {**read["Fn::GetStackOutput"], "StackName": account.api.describe_stacks()["Stacks"][0]["StackId"]}
    account.create("other", template(P=parameter({"Fn::GetStackOutput": by_id}, Name="/other")))

    assert account.parameter("/taken") == account.parameter("/other") == "a"
    assert account.update("giver", template(P=parameter("x"))) == "UPDATE_COMPLETE"
    lost = template(P=parameter(read, Name="/taken", Description="new"))
    account.refuses("taker", lost, "No output Out of the stack giver found")


# Updates


def test_an_update_changes_what_stands(account: Deployed) -> None:
    account.create("stack", template(P=parameter("x", Name="/p")))
    with pytest.raises(ClientError, match="No updates are to be performed"):
        account.update("stack", template(P=parameter("x", Name="/p")))

    assert account.update("stack", template(P=parameter("y", Name="/p"))) == "UPDATE_COMPLETE"
    assert account.parameter("/p") == "y"
    assert account.story("stack", "P")[-2:] == ["UPDATE_IN_PROGRESS", "UPDATE_COMPLETE"]


def test_a_create_only_property_replaces_and_what_refers_to_it_follows(account: Deployed) -> None:
    account.create("stack", template(Vpc=VPC, Group=group(), P=parameter(ref("Group"), Name="/group")))
    old = account.physical_id("stack", "Group")
    other = resource("EC2::SecurityGroup", GroupDescription="other", VpcId=ref("Vpc"))

    account.update("stack", template(Vpc=VPC, Group=other, P=parameter(ref("Group"), Name="/group")))

    new = account.physical_id("stack", "Group")
    assert new != old
    assert account.parameter("/group") == new
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

    why = "custom-named resource requires replacing. Rename named"
    account.refuses("stack", template(Role=role("/b/")), why)
    assert account.client("iam").get_role(RoleName="named")["Role"]["Path"] == "/a/"


def test_a_new_subnet_over_the_old_one_fails(account: Deployed) -> None:
    account.create("stack", template(Vpc=VPC, Subnet=subnet("10.0.0.0/26")))
    old = account.physical_id("stack", "Subnet")

    wanted = template(Vpc=VPC, Subnet=subnet("10.0.0.0/24"))
    account.refuses("stack", wanted, "InvalidSubnet.Conflict")
    assert account.physical_id("stack", "Subnet") == old


def test_a_file_system_grows_in_place_and_never_shrinks(account: Deployed) -> None:
    account.create("stack", with_files(lustre(1200)))
    id_ = account.physical_id("stack", "Files")

    assert account.update("stack", with_files(lustre(2400))) == "UPDATE_COMPLETE"
    (found,) = account.client("fsx").describe_file_systems()["FileSystems"]
    assert (found["FileSystemId"], found["StorageCapacity"]) == (id_, 2400)
    account.refuses("stack", with_files(lustre(1200)), "must be greater than the current")
    later = with_files(lustre(2400, lustre={"MetadataConfiguration": {"Mode": "AUTOMATIC"}}))
    account.refuses("stack", later, "A metadata configuration is given when the file system is created")


def test_another_kind_of_file_system_is_another_file_system(account: Deployed) -> None:
    account.create("stack", with_files())
    old = account.physical_id("stack", "Files")

    account.update("stack", with_files(lustre(lustre={"DeploymentType": "PERSISTENT_2"})))
    assert account.physical_id("stack", "Files") != old


def test_an_update_that_cannot_be_taken_back_leaves_the_stack_failed(account: Deployed) -> None:
    account.create("stack", with_files(lustre(1200)))
    broken = {**parameter({"Fn::ImportValue": "nothing"}), "DependsOn": ["Files"]}

    assert account.update("stack", with_files(lustre(2400), P=broken)) == "UPDATE_ROLLBACK_FAILED"
    with pytest.raises(ClientError, match="UPDATE_ROLLBACK_FAILED state and can not be updated"):
        account.update("stack", with_files(lustre(2400)))


def test_a_queue_neither_gains_nor_loses_its_fair_shares(account: Deployed) -> None:
    policy = resource("Batch::SchedulingPolicy", FairsharePolicy={})
    fair = resource("Batch::JobQueue", Priority=1, SchedulingPolicyArn=ref("Policy"))
    plain = resource("Batch::JobQueue", Priority=1)

    account.create("fifo", template(Queue=plain))
    account.refuses("fifo", template(Queue=fair, Policy=policy), "can't have a scheduling policy added")
    account.create("fair", template(Queue=fair, Policy=policy))
    account.refuses("fair", template(Queue=plain), "can't be removed")


def test_what_is_no_longer_declared_is_deleted_or_kept(account: Deployed) -> None:
    kept = {**parameter("k", Name="/kept"), "DeletionPolicy": "Retain"}
    account.create("stack", template(A=parameter("a"), Gone=parameter("g", Name="/gone"), Kept=kept))

    assert account.update("stack", template(A=parameter("a"))) == "UPDATE_COMPLETE"
    assert account.story("stack", "Kept")[-1] == "DELETE_SKIPPED"
    assert account.gone("/gone", "/kept") == ["/gone"]


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
    why = "not emulated: resources of the type AWS::DynamoDB::Table"
    assert why in account.reasons("stack", "CREATE_FAILED")
    with pytest.raises(ClientError, match="not emulated"):
        account.api.create_change_set(StackName="stack", ChangeSetName="c", TemplateBody="{}")


def test_a_template_is_answered_in_ascii(account: Deployed) -> None:
    body = json.dumps(template(P=parameter("naïve")), ensure_ascii=False)
    account.api.create_stack(StackName="stack", TemplateBody=body)

    # boto3 makes a mapping of an answer that is JSON.
    assert account.api.get_template(StackName="stack")["TemplateBody"] == template(P=parameter("na?ve"))


def test_a_second_link_cannot_lie_over_the_first(account: Deployed) -> None:
    def stack(bucket: str) -> Template:
        link = {"FileSystemPath": "/data", "DataRepositoryPath": f"s3://{bucket}"}
        return with_files(Link=resource("FSx::DataRepositoryAssociation", FileSystemId=ref("Files"), **link))

    account.create("stack", stack("one"))

    account.refuses("stack", stack("two"), "overlaps with /data")
