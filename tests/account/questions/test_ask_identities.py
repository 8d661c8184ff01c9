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


def test_a_job_reads_its_inputs_and_writes_its_output() -> None:
    found = of_the_role()

    assert resources(found["s3:GetObject"]) == ["arn:aws:s3:::data/train/*"]
    assert resources(found["s3:PutObject"]) == ["arn:aws:s3:::output/*"]


def test_each_bucket_is_listed_with_the_prefix_that_a_policy_may_name() -> None:
    listed = of_the_role()["s3:ListBucket"]

    assert [(each.resources, each.context) for each in listed] == [
        (("arn:aws:s3:::data",), {"s3:prefix": ("train/",)}),
        (("arn:aws:s3:::output",), {}),
    ]


def test_checkpoints_are_read_and_written() -> None:
    found = of_the_role(CheckpointConfig={"S3Uri": "s3://checkpoints/digits-1"})

    for action in ("s3:GetObject", "s3:PutObject"):
        assert "arn:aws:s3:::checkpoints/digits-1/*" in resources(found[action])


def test_the_image_is_pulled_from_the_registry_of_its_account() -> None:
    assert resources(of_the_role()["ecr:BatchGetImage"]) == [
        f"arn:aws:ecr:{REGION}:763104351884:repository/pytorch"
    ]


@pytest.mark.parametrize("algorithm", [{"TrainingImage": "docker.io/library/python"}, {"AlgorithmName": "x"}])
def test_an_image_outside_of_ecr_needs_nothing_of_it(algorithm: dict[str, str]) -> None:
    assert not [action for action in of_the_role(AlgorithmSpecification=algorithm) if "ecr:" in action]


def test_interfaces_are_made_in_the_subnets_and_groups_of_the_job() -> None:
    found = of_the_role(**VPC)
    (permitted,) = found["ec2:CreateNetworkInterfacePermission"]

    assert resources(found["ec2:CreateNetworkInterface"])[1:] == [SUBNET, GROUP]
    assert permitted.context["ec2:Subnet"] == (SUBNET,)


def test_a_job_outside_of_a_vpc_needs_nothing_of_ec2() -> None:
    assert not [action for action in of_the_role() if action.startswith("ec2:")]


def test_a_file_system_is_described() -> None:
    assert resources(of_the_role(InputDataConfig=[MOUNT])["fsx:DescribeFileSystems"]) == [
        f"arn:aws:fsx:{REGION}:{ACCOUNT}:file-system/fs-1"
    ]
    assert "fsx:DescribeFileSystems" not in of_the_role()


@pytest.mark.parametrize("key", [KEY, "1"])
def test_keys_may_be_allowed_by_their_own_policies(key: str) -> None:
    found = of_the_role(
        OutputDataConfig={"S3OutputPath": "s3://output", "KmsKeyId": key},
        ResourceConfig={**REQUEST["ResourceConfig"], "VolumeKmsKeyId": key},
    )

    for action in ("kms:GenerateDataKey", "kms:CreateGrant"):
        (check,) = found[action]
        assert (check.resources, check.resource_may_allow) == ((KEY,), True)


@pytest.mark.parametrize("key", ["alias/ours", f"arn:aws:kms:{REGION}:{ACCOUNT}:alias/ours"])
def test_a_key_that_is_named_by_an_alias_is_not_asked_about(key: str) -> None:
    found = of_the_role(OutputDataConfig={"S3OutputPath": "s3://output", "KmsKeyId": key})

    assert not [action for action in found if action.startswith("kms:")]


def test_resources_are_of_the_partition_of_the_role() -> None:
    found = of_the_role(RoleArn=f"arn:aws-cn:iam::{ACCOUNT}:role/training")

    assert resources(found["s3:GetObject"]) == ["arn:aws-cn:s3:::data/train/*"]


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


def test_the_tags_of_the_job_are_simulated_as_policies_may_ask_for_them() -> None:
    tags = [{"Key": "slipway:cluster", "Value": "dev"}, {"Key": "team", "Value": "vision"}]
    _, creates = caller_checks(wanted_facts(RequestView({**REQUEST, "Tags": tags}), REGION))

    assert creates.context == {
        "sagemaker:InstanceTypes": ("ml.p4d.24xlarge",),
        "aws:TagKeys": ("slipway:cluster", "team"),
        "aws:RequestTag/slipway:cluster": ("dev",),
        "aws:RequestTag/team": ("vision",),
    }


def test_conditions_that_the_request_does_not_have_are_not_simulated() -> None:
    _, creates = caller_checks(wanted_facts(RequestView(REQUEST), REGION))

    assert set(creates.context) == {"sagemaker:InstanceTypes"}


def test_a_job_of_several_instance_groups_has_no_type_to_simulate() -> None:
    _, creates = caller_checks(
        wanted_facts(RequestView({**REQUEST, "ResourceConfig": {"InstanceGroups": []}}), REGION)
    )

    assert creates.context == {}


def test_a_job_with_secrets_reads_them_and_their_own_policies_may_allow_it() -> None:
    arn = f"arn:aws:secretsmanager:eu-west-1:{ACCOUNT}:secret:other-XyXyXy"
    named = json.dumps({"A": "team/hf", "B": arn, "C": "team/hf"})
    (check,) = of_the_role(Environment={"SLIPWAY_SECRETS": named})["secretsmanager:GetSecretValue"]

    of_name = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:team/hf-AbCdEf"
    assert (check.resources, check.resource_may_allow) == ((of_name, arn), True)
    assert "secretsmanager:GetSecretValue" not in of_the_role()


def test_all_types_from_which_the_service_chooses_are_simulated() -> None:
    types = ("ml.p5.48xlarge", "ml.p5e.48xlarge")
    hosts = {"InstancePreferences": [{"InstanceType": each} for each in types], "InstanceCount": 2}
    wanted = wanted_facts(RequestView({**REQUEST, "ResourceConfig": hosts}), REGION)
    (created,) = [each for each in caller_checks(wanted) if "sagemaker:CreateTrainingJob" in each.actions]
    assert created.context["sagemaker:InstanceTypes"] == types


def test_a_job_that_lets_a_shell_in_speaks_to_systems_manager() -> None:
    assert "ssmmessages:OpenDataChannel" not in of_the_role()
    (check,) = of_the_role(RemoteDebugConfig={"EnableRemoteDebug": True})["ssmmessages:OpenDataChannel"]
    assert check.resources == ("*",)
