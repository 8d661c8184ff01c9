"""Every account that a cluster is deployed into is as new, though AWS's calls deploy it only once."""

from __future__ import annotations

from typing import Any

from moto import mock_aws

from tests.emulator.buckets import emulated_buckets
from tests.session.deployed import client, deploy, stack_of
from tests.stacks.synthesis import dev_spec, synthesize


def told() -> dict[str, Any]:
    """What AWS's calls say of the account."""
    stacks = client("cloudformation").describe_stacks()["Stacks"]
    return {
        "stacks": [(each["StackName"], each["StackStatus"]) for each in stacks],
        "protected": stack_of("slipway-dev-storage").protected,
        "events": len(stack_of("slipway-dev-network").events),
        "buckets": [each["Name"] for each in client("s3").list_buckets()["Buckets"]],
        "groups": [each["GroupId"] for each in client("ec2").describe_security_groups()["SecurityGroups"]],
        "manifest": client("ssm").get_parameter(Name="/slipway/clusters/dev")["Parameter"]["Version"],
        "key": client("kms").list_keys()["Keys"],
    }


def change() -> None:
    """Leave nothing of what `told` tells as it was."""
    cloudformation, s3, ssm = client("cloudformation"), client("s3"), client("ssm")
    cloudformation.update_termination_protection(
        StackName="slipway-dev-storage", EnableTerminationProtection=False
    )
    cloudformation.delete_stack(StackName="slipway-dev-access")
    stack_of("slipway-dev-network").become("UPDATE_COMPLETE")
    s3.create_bucket(Bucket="new", CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    client("ec2").create_security_group(GroupName="new", Description="new")
    ssm.put_parameter(Name="/slipway/clusters/dev", Value="{}", Type="String", Overwrite=True)
    client("kms").create_key()


def test_what_happens_to_a_deployed_cluster_is_not_in_the_next_account() -> None:
    cluster = synthesize(dev_spec(removal_policy="retain"))
    with mock_aws(), emulated_buckets():
        deploy(cluster, "dev")
        as_new = told()
        change()
        changed = told()
    assert [name for name in as_new if changed[name] == as_new[name]] == []
    for _ in range(2):
        with mock_aws(), emulated_buckets():
            deploy(cluster, "dev")
            assert told() == as_new
            change()


def test_what_is_in_an_account_stays_there() -> None:
    cluster = synthesize(dev_spec(removal_policy="retain"))
    for name in ("first", "second"):
        with mock_aws():
            client("ssm").put_parameter(Name=name, Value="kept", Type="String")
            deploy(cluster, "dev")
            assert client("ssm").get_parameter(Name=name)["Parameter"]["Value"] == "kept"
