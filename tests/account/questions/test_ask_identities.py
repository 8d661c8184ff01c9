"""What a job's role and its launcher must be allowed to do: the checks that IAM simulates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from launcher.account.facts import Check
from launcher.account.questions.ask_identities import caller_checks, role_checks
from launcher.planning.request_view import RequestView
from launcher.session.account_checks import wanted_facts

ACCOUNT, REGION = "123456789012", "us-west-2"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1"
SUBNET, GROUP = (
    f"arn:aws:ec2:{REGION}:{ACCOUNT}:{each}" for each in ("subnet/subnet-1", "security-group/sg-1")
)
REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits-1",
    "RoleArn": f"arn:aws:iam::{ACCOUNT}:role/training",
    "AlgorithmSpecification": {"TrainingImage": f"763104351884.dkr.ecr.{REGION}.amazonaws.com/pytorch:2.8"},
    "ResourceConfig": {"InstanceType": "ml.p4d.24xlarge", "InstanceCount": 2},
    "InputDataConfig": [
        {"ChannelName": "train", "DataSource": {"S3DataSource": {"S3Uri": "s3://data/train/"}}}
    ],
    "OutputDataConfig": {"S3OutputPath": "s3://output"},
}
VPC = {"VpcConfig": {"Subnets": ["subnet-1"], "SecurityGroupIds": ["sg-1"]}}
MOUNT = {"DataSource": {"FileSystemDataSource": {"FileSystemId": "fs-1"}}, "ChannelName": "corpus"}


def of_the_role(**changes: Any) -> dict[str, list[Check]]:
    """The checks of a job by each of their actions."""
    found: dict[str, list[Check]] = {}
    for check in role_checks(wanted_facts(RequestView({**REQUEST, **changes}), REGION)):
        for action in check.actions:
            found.setdefault(action, []).append(check)
    return found


def resources(checks: list[Check]) -> list[str]:
    return [resource for check in checks for resource in check.resources]


CHINA = f"arn:aws-cn:iam::{ACCOUNT}:role/training"
CHECKPOINTS = {"CheckpointConfig": {"S3Uri": "s3://checkpoints/digits-1"}}
FIRST, SAVED = "arn:aws:s3:::data/train/*", "arn:aws:s3:::checkpoints/digits-1/*"
ON = [
    ({}, "s3:GetObject", [FIRST]),
    ({}, "s3:PutObject", ["arn:aws:s3:::output/*"]),
    (CHECKPOINTS, "s3:GetObject", [FIRST, SAVED]),
    (CHECKPOINTS, "s3:PutObject", [SAVED, "arn:aws:s3:::output/*"]),
    ({}, "ecr:BatchGetImage", [f"arn:aws:ecr:{REGION}:763104351884:repository/pytorch"]),
    ({"InputDataConfig": [MOUNT]}, "fsx:DescribeFileSystems",
     [f"arn:aws:fsx:{REGION}:{ACCOUNT}:file-system/fs-1"]),
    ({"RoleArn": CHINA}, "s3:GetObject", ["arn:aws-cn:s3:::data/train/*"]),
]  # fmt: skip
"""What a job has, an action, and the resources on which its role is asked for it."""


@pytest.mark.parametrize(("changes", "action", "expected"), ON)
def test_the_role_is_asked_for_what_the_job_needs(
    changes: dict[str, Any], action: str, expected: list[str]
) -> None:
    assert resources(of_the_role(**changes)[action]) == expected


OUTSIDE = [
    ({"AlgorithmSpecification": {"TrainingImage": "docker.io/library/python"}}, "ecr:"),
    ({"AlgorithmSpecification": {"AlgorithmName": "x"}}, "ecr:"),
    ({}, "ec2:"),
    ({}, "fsx:"),
    *(({"OutputDataConfig": {"S3OutputPath": "s3://output", "KmsKeyId": key}}, "kms:")
      for key in ("alias/ours", f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/ours")),
]  # fmt: skip
"""Images outside of ECR, jobs without a VPC or a file system, and keys that are named by an alias."""


@pytest.mark.parametrize(("changes", "service"), OUTSIDE)
def test_the_role_is_not_asked_for_what_the_job_does_not_need(changes: dict[str, Any], service: str) -> None:
    assert not [action for action in of_the_role(**changes) if action.startswith(service)]


def test_each_bucket_is_listed_with_the_prefix_that_a_policy_may_name() -> None:
    listed = of_the_role()["s3:ListBucket"]

    assert [(each.resources, each.context) for each in listed] == [
        (("arn:aws:s3:::data",), {"s3:prefix": ("train/",)}),
        (("arn:aws:s3:::output",), {}),
    ]


def test_interfaces_are_made_in_the_subnets_and_groups_of_the_job() -> None:
    found = of_the_role(**VPC)
    (permitted,) = found["ec2:CreateNetworkInterfacePermission"]

    assert resources(found["ec2:CreateNetworkInterface"])[1:] == [SUBNET, GROUP]
    assert permitted.context["ec2:Subnet"] == (SUBNET,)


@pytest.mark.parametrize("key", [KEY, "1"])
def test_keys_may_be_allowed_by_their_own_policies(key: str) -> None:
    found = of_the_role(
        OutputDataConfig={"S3OutputPath": "s3://output", "KmsKeyId": key},
        ResourceConfig={**REQUEST["ResourceConfig"], "VolumeKmsKeyId": key},
    )

    for action in ("kms:GenerateDataKey", "kms:CreateGrant"):
        (check,) = found[action]
        assert (check.resources, check.resource_may_allow) == ((KEY,), True)


def test_the_caller_passes_the_role_to_sagemaker_and_creates_this_job() -> None:
    passes, creates = caller_checks(wanted_facts(RequestView({**REQUEST, **VPC}), REGION))

    assert (passes.actions, passes.resources) == (("iam:PassRole",), (REQUEST["RoleArn"],))
    assert passes.context == {"iam:PassedToService": ("sagemaker.amazonaws.com",)}
    assert creates.resources == (f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:training-job/digits-1",)
    assert creates.context == {
        "sagemaker:InstanceTypes": ("ml.p4d.24xlarge",),
        "sagemaker:VpcSubnets": ("subnet-1",),
        "sagemaker:VpcSecurityGroupIds": ("sg-1",),
    }


TYPE = {"sagemaker:InstanceTypes": ("ml.p4d.24xlarge",)}
TAGS = [{"Key": "slipway:cluster", "Value": "dev"}, {"Key": "team", "Value": "vision"}]
TAGGED = {
    "aws:TagKeys": ("slipway:cluster", "team"),
    "aws:RequestTag/slipway:cluster": ("dev",),
    "aws:RequestTag/team": ("vision",),
}
SEVERAL = ("ml.p5.48xlarge", "ml.p5e.48xlarge")
CHOICE = {"InstancePreferences": [{"InstanceType": each} for each in SEVERAL], "InstanceCount": 2}


@pytest.mark.parametrize(
    ("changes", "context"),
    [
        ({}, TYPE),
        ({"Tags": TAGS}, {**TYPE, **TAGGED}),
        ({"ResourceConfig": {"InstanceGroups": []}}, {}),
        ({"ResourceConfig": CHOICE}, {"sagemaker:InstanceTypes": SEVERAL}),
    ],
    ids=["no condition that the request has not", "tags", "instance groups", "types to choose from"],
)
def test_the_conditions_of_the_creation_are_those_of_the_request(
    changes: dict[str, Any], context: dict[str, Any]
) -> None:
    _, creates = caller_checks(wanted_facts(RequestView({**REQUEST, **changes}), REGION))
    assert creates.context == context


def test_a_job_with_secrets_reads_them_and_their_own_policies_may_allow_it() -> None:
    arn = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:other-XyXyXy"
    named = json.dumps({"A": "team/hf", "B": arn, "C": "team/hf"})
    (check,) = of_the_role(Environment={"SLIPWAY_SECRETS": named})["secretsmanager:GetSecretValue"]

    of_name = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:team/hf-AbCdEf"
    assert (check.resources, check.resource_may_allow) == ((of_name, arn), True)
    assert "secretsmanager:GetSecretValue" not in of_the_role()


def test_a_job_that_lets_a_shell_in_speaks_to_systems_manager() -> None:
    assert "ssmmessages:OpenDataChannel" not in of_the_role()
    (check,) = of_the_role(RemoteDebugConfig={"EnableRemoteDebug": True})["ssmmessages:OpenDataChannel"]
    assert check.resources == ("*",)
