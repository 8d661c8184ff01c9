"""Policies fit into what IAM takes, whatever CloudFormation calls the resources, with many buckets."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from constructs.permissions import INLINE_POLICIES_SIZE, MANAGED_POLICY_SIZE

from launcher.cluster.specification import MOST_DATA_BUCKETS
from tests.stacks.synthesis import Synthesized, dev_spec, synthesize

LONG_ROLE = f"arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/us-west-2/{'r' * 64}"

LONGEST = {
    "AWS::S3::Bucket": "b" * 63,
    "AWS::EC2::Subnet": "subnet-0123456789abcdef0",
    "AWS::EC2::SecurityGroup": "sg-0123456789abcdef0",
    "AWS::IAM::Role": "r" * 64,
    "AWS::KMS::Key": "1234abcd-12ab-34cd-56ef-1234567890ab",
    "AWS::Batch::JobQueue": "q" * 64,
}
"""The longest that CloudFormation calls a resource, or that its id is."""

ARNS = {
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::IAM::Role": "arn:aws:iam::111122223333:role/{}",
    "AWS::KMS::Key": "arn:aws:kms:us-west-2:111122223333:key/{}",
    "AWS::Batch::JobQueue": "arn:aws:batch:us-west-2:111122223333:job-queue/{}",
}


@cache
def largest(data_buckets: int) -> Synthesized:
    """A cluster with every part that makes policies longer."""
    subnets = [
        {
            "id": f"subnet-0123456789abcde{number:02}",
            "availability_zone": f"us-west-2{'abcdefghijklmnop'[number]}",
        }
        for number in range(16)
    ]
    return synthesize(
        dev_spec(
            name="n" * 32,
            availability_zones=[],
            vpc={"existing": {"vpc_id": "vpc-0123456789abcdef0", "subnets": subnets}},
            data_buckets=[f"{number:03}{'d' * 60}" for number in range(data_buckets)],
            lustre={"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 1200},
            encryption="new-key",
            queue={},
            launchers=[f"{LONG_ROLE[:-1]}{number}" for number in range(5)],
            teams={"sixteen-long-one": {"launchers": [LONG_ROLE]}},
        )
    )


def written_out(value: Any, cluster: Synthesized, part: str) -> Any:
    """What becomes of a value of the template when it is deployed, at its longest."""
    match value:
        case {"Fn::Join": [delimiter, parts]}:
            return delimiter.join(written_out(each, cluster, part) for each in parts)
        case {"Ref": "AWS::Partition"}:
            return "aws"
        case {"Ref": "AWS::AccountId"}:
            return "111122223333"
        case {"Fn::ImportValue": name} | {"Fn::GetStackOutput": {"OutputName": name}}:
            for owner in cluster.parts:
                for key, output in cluster.template(owner).get("Outputs", {}).items():
                    if name in (key, output.get("Export", {}).get("Name")):
                        return written_out(output["Value"], cluster, owner)
        case {"Fn::GetStackOutput": {"OutputName": name}}:
            for owner in cluster.parts:
                if name in (outputs := cluster.template(owner).get("Outputs", {})):
                    return written_out(outputs[name]["Value"], cluster, owner)
        case {"Ref": name} | {"Fn::GetAtt": [name, "GroupId"]}:
            return LONGEST[cluster.template(part)["Resources"][name]["Type"]]
        case {"Fn::GetAtt": [name, _]}:
            kind = cluster.template(part)["Resources"][name]["Type"]
            return ARNS[kind].format(LONGEST[kind])
        case dict():
            return {key: written_out(each, cluster, part) for key, each in value.items()}
        case list():
            return [written_out(each, cluster, part) for each in value]
    return value


def sizes(cluster: Synthesized, kind: str) -> dict[str, int]:
    """Characters of each managed policy, or of all inline policies of each role."""
    found = {}
    for name, resource in cluster.resources("access", kind).items():
        properties = resource["Properties"]
        documents = (
            [properties["PolicyDocument"]]
            if kind == "AWS::IAM::ManagedPolicy"
            else [policy["PolicyDocument"] for policy in properties["Policies"]]
        )
        found[name] = sum(
            len(json.dumps(written_out(each, cluster, "access"), separators=(",", ":"))) for each in documents
        )
    return found


def policies(cluster: Synthesized, of: str) -> list[str]:
    return [name for name in cluster.resources("access", "AWS::IAM::ManagedPolicy") if name.startswith(of)]


@pytest.mark.few_cases("1", "100")
@pytest.mark.parametrize("data_buckets", [0, 1, 40, 50, MOST_DATA_BUCKETS])
def test_every_policy_fits(data_buckets: int) -> None:
    cluster = largest(data_buckets)

    assert max(sizes(cluster, "AWS::IAM::ManagedPolicy").values()) <= MANAGED_POLICY_SIZE
    assert max(sizes(cluster, "AWS::IAM::Role").values()) <= INLINE_POLICIES_SIZE


@pytest.mark.parametrize("data_buckets", [0, 1, 40, 50, MOST_DATA_BUCKETS])
def test_every_data_bucket_is_in_a_policy_of_the_job_and_of_the_launcher(data_buckets: int) -> None:
    template = largest(data_buckets).template("access")["Resources"]
    for kind in ("TrainingRole", "LauncherPolicy", "TeamSixteenLongOnePolicy"):
        text = json.dumps([each for name, each in template.items() if name.startswith(kind)])
        assert [number for number in range(data_buckets) if f"{number:03}ddd" not in text] == []


def test_a_role_has_room_for_the_policies_and_for_as_many_others() -> None:
    cluster = largest(MOST_DATA_BUCKETS)

    assert len(policies(cluster, "LauncherPolicy")) <= 4
    assert len(policies(cluster, "TrainingRole")) <= 5


def test_what_fits_into_one_policy_is_in_one() -> None:
    cluster = synthesize(dev_spec(data_buckets=["corpus"]))

    assert len(policies(cluster, "LauncherPolicy")) == 1
    assert policies(cluster, "TrainingRole") == []
    assert isinstance(cluster.template("access")["Outputs"]["LauncherPolicyArn"]["Value"], dict)


def test_the_output_names_every_policy_of_the_launcher() -> None:
    cluster = largest(50)
    value = cluster.template("access")["Outputs"]["LauncherPolicyArn"]["Value"]

    assert value == {"Fn::Join": [",", [{"Ref": name} for name in policies(cluster, "LauncherPolicy")]]}
    assert len(policies(cluster, "LauncherPolicy")) > 1
