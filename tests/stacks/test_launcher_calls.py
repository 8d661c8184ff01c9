"""Who has the launcher's policy may make every call that the launcher's code makes, and no others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import ClusterSpec
from tests.stacks.synthesis import synthesize

ROOT = Path(__file__).parents[2]
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
    spec = load_cluster_file(ROOT / "clusters" / "p5-large.yaml").model_dump()
    given = {"launchers": ["arn:aws:iam::111122223333:role/team"]}
    access = synthesize(ClusterSpec.model_validate({**spec, **given}))
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
        if not name.startswith(("launcher/session/clusters/", "launcher/cli/clusters/"))
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
