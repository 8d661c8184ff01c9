"""The execution role: enough for a training job, and no more."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_s3 as s3
from cdk_nag import AwsSolutionsChecks
from constructs.training_role import TrainingRole

from tests.stacks.synthesis import new_stack, resources_of, template_of


def role_in(stack: cdk.Stack, buckets: list[s3.IBucket]) -> None:
    code, checkpoints, output = buckets
    TrainingRole(
        stack,
        "Role",
        code=code,
        checkpoints=checkpoints,
        output=output,
        subnet_ids=["subnet-0123456789abcdef0"],
        security_group_ids=["sg-0123456789abcdef0"],
        file_system=True,
    )


@pytest.fixture(scope="module")
def role() -> dict[str, Any]:
    stack = new_stack()
    names = ("code", "checkpoints", "output")
    role_in(stack, [s3.Bucket.from_bucket_name(stack, name, name) for name in names])
    (found,) = resources_of(template_of(stack), "AWS::IAM::Role").values()
    properties: dict[str, Any] = found["Properties"]
    return properties


@pytest.fixture(scope="module")
def allowed(role: dict[str, Any]) -> dict[str, Any]:
    """The statements by their id, actions as lists."""
    (policy,) = role["Policies"]
    return {
        each["Sid"]: {
            **each,
            "Action": [each["Action"]] if isinstance(each["Action"], str) else each["Action"],
        }
        for each in policy["PolicyDocument"]["Statement"]
    }


def test_no_managed_policy_is_attached(role: dict[str, Any]) -> None:
    assert "ManagedPolicyArns" not in role


def test_only_sagemaker_of_this_account_takes_it_on(role: dict[str, Any]) -> None:
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]

    assert trust["Principal"] == {"Service": "sagemaker.amazonaws.com"}
    assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}


@pytest.mark.parametrize(
    ("bucket", "actions"),
    [
        ("code/code", {"s3:GetObject"}),
        ("code", set()),
        ("checkpoints", {"s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"}),
        ("output", {"s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"}),
    ],
)
def test_each_bucket_is_open_for_its_purpose(allowed: dict[str, Any], bucket: str, actions: set[str]) -> None:
    objects = {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":s3:::{bucket}/*"]]}
    literal = f"arn:aws:s3:::{bucket}/*"
    granted = {
        action
        for each in allowed.values()
        if each["Resource"] in (objects, literal)
        for action in each["Action"]
    }

    assert granted == actions


@pytest.mark.parametrize("elsewhere", [False, True], ids=["bucket in the same stack", "in another"])
def test_every_wildcard_is_acknowledged(elsewhere: bool) -> None:
    stack = new_stack()
    owner = (
        cdk.Stack(stack.node.root, "Owner", env=cdk.Environment(region="us-west-2")) if elsewhere else stack
    )
    logs = s3.Bucket(owner, "Logs", enforce_ssl=True)
    buckets: list[s3.IBucket] = [
        s3.Bucket(owner, name, enforce_ssl=True, server_access_logs_bucket=logs) for name in ("A", "B", "C")
    ]
    role_in(stack, buckets)
    template_of(stack)
    report = AwsSolutionsChecks(stack.node.root).validate_scope(stack.node.root)

    assert not [each.rule_name for each in report.violations if "IAM5" in each.rule_name]
