"""What passes the endpoints of an isolated cluster, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator.iam_policy import Context, allows, flat
from tests.stacks.synthesis import Synthesized, dev_spec, synthesize

ACCOUNT = "111122223333"
OURS, OTHERS = ({"aws:ResourceAccount": account} for account in (ACCOUNT, "999999999999"))
US, FOREIGN = ({"aws:PrincipalAccount": account} for account in (ACCOUNT, "999999999999"))


def policies(cluster: Synthesized) -> dict[str, dict[str, Any] | None]:
    """The policy of each endpoint, by its logical id, None where it has none."""
    names = {"AWS::Partition": "aws", "AWS::AccountId": ACCOUNT}
    return {
        name: flat(each["Properties"].get("PolicyDocument"), names)
        for name, each in cluster.resources("network", "AWS::EC2::VPCEndpoint").items()
    }


def policy_of(cluster: Synthesized, part: str) -> dict[str, Any]:
    (found,) = (document for name, document in policies(cluster).items() if part in name)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def with_data() -> Synthesized:
    vpc = {"cidr": "10.64.0.0/20", "nat": False}
    return synthesize(dev_spec(vpc=vpc, data_buckets=["theirs"], lustre=None))


@pytest.mark.parametrize(
    ("action", "arn", "context", "passes"),
    [
        ("s3:PutObject", "arn:aws:s3:::our-checkpoints/llama-1/1", OURS, True),
        ("s3:GetObject", "arn:aws:s3:::theirs/corpus", OTHERS, True),
        ("s3:ListBucket", "arn:aws:s3:::theirs", OTHERS, True),
        ("s3:GetObject", "arn:aws:s3:::prod-us-west-2-starport-layer-bucket/1a2b", OTHERS, True),
        ("s3:PutObject", "arn:aws:s3:::theirs/corpus", OTHERS, False),
        ("s3:PutObject", "arn:aws:s3:::prod-us-west-2-starport-layer-bucket/1a2b", OTHERS, False),
        ("s3:PutObject", "arn:aws:s3:::anybodys/secret", OTHERS, False),
        ("s3:GetObject", "arn:aws:s3:::anybodys/program", OTHERS, False),
    ],
)
def test_s3_is_reached_for_the_accounts_buckets_and_data_and_images(
    with_data: Synthesized, action: str, arn: str, context: Context, passes: bool
) -> None:
    assert allows(policy_of(with_data, "VpcS3"), action, arn, context) is passes


def test_every_endpoint_of_an_isolated_cluster_has_a_policy(isolated: Synthesized) -> None:
    assert [name for name, policy in policies(isolated).items() if policy is None] == []


@pytest.mark.parametrize("part", ["Logs", "Monitoring", "Sts", "SageMakerApi", "Ssm", "Kms", "Fsx", "Ecr"])
def test_foreign_credentials_do_not_pass(isolated: Synthesized, part: str) -> None:
    for name, policy in policies(isolated).items():
        if part in name and policy is not None:
            for action in ("logs:PutLogEvents", "ecr:PutImage", "ssm:PutParameter"):
                assert allows(policy, action, "*", US)
                assert not allows(policy, action, "*", FOREIGN)


def test_images_are_pulled_by_whoever_may(isolated: Synthesized) -> None:
    for part in ("EcrApi", "EcrDocker"):
        assert allows(policy_of(isolated, part), "ecr:BatchGetImage", "*", FOREIGN)
    assert not allows(policy_of(isolated, "Logs"), "ecr:BatchGetImage", "*", FOREIGN)


def test_a_network_with_nat_keeps_its_endpoint_as_it_was(dev: Synthesized) -> None:
    assert list(policies(dev).values()) == [None]
