"""The policies hold what jobs and the launcher call, fit IAM's sizes, and name actions that exist."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name
from constructs.permissions import INLINE_POLICIES_SIZE, MANAGED_POLICY_SIZE

from launcher.cluster.specification import MOST_DATA_BUCKETS
from tests.stacks import synthesis
from tests.stacks.authorization_reference import actions, knows_key, matches, resource_types
from tests.stacks.statements import Statement, statements
from tests.stacks.synthesis import CLUSTERS, ROOT, Synthesized, changed_spec, dev_spec, synthesize

LONG_ROLE = f"arn:aws:iam::111122223333:role/aws-reserved/sso.amazonaws.com/us-west-2/{'r' * 64}"

LONGEST = {
    "AWS::S3::Bucket": "b" * 63,
    "AWS::EC2::Subnet": "subnet-0123456789abcdef0",
    "AWS::EC2::SecurityGroup": "sg-0123456789abcdef0",
    "AWS::IAM::Role": "r" * 64,
    "AWS::KMS::Key": "1234abcd-12ab-34cd-56ef-1234567890ab",
    "AWS::Batch::JobQueue": "q" * 64,
    "AWS::SNS::Topic": "t" * 80,
    "AWS::SQS::Queue": "e" * 80,
    "AWS::Logs::LogGroup": "l" * 128,
}
"""The longest that CloudFormation calls a resource, or that its id is."""

ARNS = {
    "AWS::S3::Bucket": "arn:aws:s3:::{}",
    "AWS::IAM::Role": "arn:aws:iam::111122223333:role/{}",
    "AWS::KMS::Key": "arn:aws:kms:us-west-2:111122223333:key/{}",
    "AWS::Batch::JobQueue": "arn:aws:batch:us-west-2:111122223333:job-queue/{}",
    "AWS::SQS::Queue": "arn:aws:sqs:us-west-2:111122223333:{}",
    "AWS::Logs::LogGroup": "arn:aws:logs:us-west-2:111122223333:log-group:{}:*",
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
            managed=True,
            observability={},
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


def sizes(cluster: Synthesized, kind: str, part: str = "access") -> dict[str, int]:
    """Characters of each managed policy, or of all inline policies of each role."""
    found = {}
    for name, resource in cluster.resources(part, kind).items():
        properties = resource["Properties"]
        documents = (
            [properties["PolicyDocument"]]
            if kind == "AWS::IAM::ManagedPolicy"
            else [policy["PolicyDocument"] for policy in properties["Policies"]]
        )
        found[name] = sum(
            len(json.dumps(written_out(each, cluster, part), separators=(",", ":"))) for each in documents
        )
    return found


def policies(cluster: Synthesized, of: str) -> list[str]:
    return [name for name in cluster.resources("access", "AWS::IAM::ManagedPolicy") if name.startswith(of)]


@pytest.mark.few_cases("1", "100")
@pytest.mark.parametrize("data_buckets", [0, 1, 40, 50, MOST_DATA_BUCKETS])
def test_every_policy_fits(data_buckets: int) -> None:
    cluster = largest(data_buckets)

    assert max(sizes(cluster, "AWS::IAM::ManagedPolicy").values()) <= MANAGED_POLICY_SIZE
    for part in ("access", "managed"):
        assert max(sizes(cluster, "AWS::IAM::Role", part).values()) <= INLINE_POLICIES_SIZE


@pytest.mark.few_cases("0", "50")
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


ROOMS = ("account", "aws", "backends")

SERVICES = {
    "sagemaker": "sagemaker", "logs": "logs", "s3": "s3", "ec2": "ec2", "iam": "iam", "ecr": "ecr",
    "fsx": "fsx", "service-quotas": "servicequotas", "sts": "sts", "ssm": "ssm", "batch": "batch",
}  # fmt: skip
"""boto3's name of a service, and the prefix of its actions in IAM."""

OTHERWISE_NAMED = {
    "s3:HeadBucket": {"s3:ListBucket"},
    "s3:CopyObject": {"s3:GetObject", "s3:PutObject"},
    "s3:HeadObject": {"s3:GetObject"},
    "s3:ListObjectsV2": {"s3:ListBucket"},
    "s3:GetBucketEncryption": {"s3:GetEncryptionConfiguration"},
}
"""Operations whose permission is called otherwise (S3 user guide, using-with-s3-policy-actions)."""

FOR_THOSE_WHO_DEPLOY = {"launcher/aws/buckets.py", "launcher/aws/stacks.py"}
"""What only `launch cluster` calls: with the permissions of who deploys, which the policy does not give."""

TRANSFERS = {"upload_file": {"s3:PutObject"}, "copy": {"s3:GetObject", "s3:PutObject"}}
"""boto3's own methods on top of S3's operations."""

REPAIRS = {"ec2:AuthorizeSecurityGroupIngress", "ec2:AuthorizeSecurityGroupEgress"}
"""What `check --live --fix` does: for who runs the network, not for all who launch."""

BESIDE_THE_CODE = {
    "iam:PassRole",
    "kms:CreateGrant",
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:GenerateDataKey",
    "s3:AbortMultipartUpload",
    "s3:GetBucketLocation",
    "sagemaker:AddTags",
    "batch:TagResource",
    "ecr:DescribeImages",
    "ssm:ResumeSession",
    "ssm:StartSession",
    "ssm:TerminateSession",
}
"""What AWS asks for when other calls are made, and what no method of a client is called after."""


def operations() -> dict[str, set[str]]:
    """The actions by the method of boto3's clients that needs them."""
    found: dict[str, set[str]] = dict(TRANSFERS)
    session = botocore.session.get_session()
    for service, prefix in SERVICES.items():
        for operation in session.get_service_model(service).operation_names:
            action = f"{prefix}:{operation}"
            found.setdefault(xform_name(operation), set()).update(OTHERWISE_NAMED.get(action, {action}))
    return found


def methods() -> Iterator[tuple[str, str]]:
    """What may be the name of a client's method, and where: attributes that are called, and texts."""
    for room in ROOMS:
        for file in sorted((ROOT / "launcher" / room).rglob("*.py")):
            if str(file.relative_to(ROOT)) in FOR_THOSE_WHO_DEPLOY:
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    yield node.func.attr, f"{file.relative_to(ROOT)}:{node.lineno}"
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value, f"{file.relative_to(ROOT)}:{node.lineno}"


@pytest.fixture(scope="module")
def allowed() -> set[str]:
    launchers = ["arn:aws:iam::111122223333:role/team"]
    hyperpod = {"groups": [{"name": "h100", "instance_type": "ml.p5.48xlarge"}]}
    access = synthesize(changed_spec("p5-large", launchers=launchers, hyperpod=hyperpod))
    actions: set[str] = set()
    for policy in access.resources("access", "AWS::IAM::ManagedPolicy").values():
        for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
            listed: Any = statement["Action"]
            actions |= set([listed] if isinstance(listed, str) else listed)
    return actions


@pytest.fixture(scope="module")
def needed() -> dict[str, str]:
    """The actions that the code needs, and a place that needs each."""
    known = operations()
    return {action: place for method, place in methods() for action in known.get(method, ())}


def test_every_call_is_allowed(allowed: set[str], needed: dict[str, str]) -> None:
    missing = {action: place for action, place in needed.items() if action not in allowed | REPAIRS}
    # A method of this name may be of another service, or of no client: one that is allowed will do.
    named = {action.partition(":")[2] for action in allowed}
    assert {action: place for action, place in missing.items() if action.partition(":")[2] not in named} == {}


def test_nothing_is_allowed_that_no_code_calls(allowed: set[str], needed: dict[str, str]) -> None:
    assert allowed - set(needed) - BESIDE_THE_CODE == set()


def test_the_repairs_of_a_network_are_not_for_all_who_launch(allowed: set[str]) -> None:
    assert not REPAIRS & allowed


def imports(file: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(file.read_text("utf-8"))))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def test_what_the_policy_leaves_out_is_called_for_clusters_alone() -> None:
    theirs = {name.removesuffix(".py").replace("/", ".") for name in FOR_THOSE_WHO_DEPLOY}
    files = [
        str(file.relative_to(ROOT)) for file in (ROOT / "launcher").rglob("*.py") if imports(file) & theirs
    ]
    others = [
        name
        for name in files
        if not name.startswith(
            (
                "launcher/session/destroy_cluster",
                "launcher/session/plan_update",
                "launcher/session/show_cluster",
                "launcher/cli/cluster_",
            )
        )
        and name not in FOR_THOSE_WHO_DEPLOY
    ]
    assert files and others == []


def test_what_who_deploys_needs_beside_the_policy_is_documented() -> None:
    page = (ROOT / "docs" / "cluster-life.md").read_text("utf-8")
    told = set(re.findall(r"`([a-z0-9-]+:[A-Z][A-Za-z]+)`", page))
    code = "".join((ROOT / name).read_text("utf-8") for name in FOR_THOSE_WHO_DEPLOY)
    called = set(re.findall(r"\(([a-z0-9-]+:[A-Z][A-Za-z]+)\)", code))
    assert len(called) > 15
    assert called - told == set()


ON_EVERYTHING = {
    "servicequotas:GetServiceQuota": "it reads how much the account may use, whatever the service",
}
"""Actions that a statement allows on `*` although they know resources, each with its reason."""


BESIDE_THE_REFERENCE = {
    ("ssm:StartSession", "sagemaker"): "a node of HyperPod is a target of sessions by its cluster "
    "(sagemaker-cluster:ID_GROUP-INSTANCE), which the reference does not have"
}
"""Resources of an action, by their service, that the reference lacks, each with the reason."""


@pytest.fixture(scope="session")
def found(cluster: Synthesized) -> list[Statement]:
    return list(statements(cluster))


def each_action(found: list[Statement]) -> Iterator[tuple[Statement, str]]:
    """The actions of the statements of identities, those of wildcards one by one."""
    for statement in found:
        if statement.of_identity:
            for pattern in statement.actions:
                for action in actions(pattern):
                    yield statement, action


def test_the_statements_of_all_policies_are_looked_at() -> None:
    found = list(statements(synthesis.cluster("p5-large")))
    for policy in ("access: TrainingRole", "access: LauncherPolicy"):
        assert any(statement.where.startswith(policy) for statement in found)


@pytest.mark.few_cases("dev", "everything")
def test_every_action_exists(found: list[Statement]) -> None:
    unknown = {
        (each.where, action)
        for each in found
        for action in each.actions
        if action != "*" and not actions(action)
    }

    assert unknown == set()


def test_an_action_knows_a_resource_that_its_statement_names(found: list[Statement]) -> None:
    without_effect = {
        (statement.where, action)
        for statement, action in each_action(found)
        if "*" not in statement.resources
        and not any(
            matches(action, kind, arn) for kind in resource_types(action) for arn in statement.resources
        )
    }

    assert without_effect == set()


def test_a_resource_is_known_to_an_action_of_its_statement(found: list[Statement]) -> None:
    unknown = {
        (statement.where, arn)
        for statement in found
        if statement.of_identity
        for arn in statement.resources
        if arn != "*"
        and not any(
            matches(action, kind, arn)
            for pattern in statement.actions
            for action in actions(pattern)
            for kind in resource_types(action)
        )
        and not any((action, arn.split(":")[2]) in BESIDE_THE_REFERENCE for action in statement.actions)
    }

    assert unknown == set()


def test_an_action_gets_each_resource_that_it_must_have(found: list[Statement]) -> None:
    """Somewhere in the same policy: EC2 asks for the interface and for its subnet."""
    arns: dict[tuple[str, str], set[str]] = {}
    for statement, action in each_action(found):
        arns.setdefault((statement.where.rpartition(": ")[0], action), set()).update(statement.resources)
    lacking = {
        (policy, action, kind)
        for (policy, action), named in arns.items()
        for kind, required in resource_types(action).items()
        if required and "*" not in named and not any(matches(action, kind, arn) for arn in named)
    }

    assert lacking == set()


def test_everything_is_allowed_only_where_nothing_narrower_can_be_said(found: list[Statement]) -> None:
    too_wide = {
        (statement.where, action)
        for statement, action in each_action(found)
        if "*" in statement.resources
        and resource_types(action)
        and not statement.condition_keys
        and action not in ON_EVERYTHING
    }

    assert too_wide == set()


def test_an_action_has_the_keys_of_its_conditions(found: list[Statement]) -> None:
    unknown = {
        (statement.where, action, key)
        for statement in found
        for pattern in statement.actions
        if pattern != "*"
        for action in actions(pattern)
        for key in statement.condition_keys
        if not knows_key(action, key)
    }

    assert unknown == set()


def test_every_reason_is_of_a_statement_that_is_there() -> None:
    of_all = {
        action for name in CLUSTERS for _, action in each_action(list(statements(synthesis.cluster(name))))
    }

    assert set(ON_EVERYTHING) <= of_all
