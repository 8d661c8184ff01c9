"""What holds for every template: the checkers are content, and nothing has to be looked up."""

from __future__ import annotations

import json

import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from cdk_nag import AwsSolutionsChecks
from cfnlint.api import lint
from cfnlint.config import ManualArgs

from tests.stacks.synthesis import PARTS, ROOT, Synthesized, dev_spec, new_stack, synthesize

LARGE = dev_spec(
    name="large",
    availability_zones=["us-west-2a", "us-west-2b"],
    vpc={"cidr": "10.0.0.0/16", "nat": False},
    hosts={"instance_type": "ml.p5.48xlarge", "count": 64},
    lustre={"deployment": "PERSISTENT_2", "throughput": 125, "capacity_gib": 4800},
    removal_policy="retain",
)
WITHOUT_LUSTRE = dev_spec(name="plain", lustre=None)


@pytest.fixture(scope="session", params=["dev", "large", "plain"])
def cluster(request: pytest.FixtureRequest) -> Synthesized:
    if request.param == "dev":
        return request.getfixturevalue("dev")
    return synthesize(LARGE if request.param == "large" else WITHOUT_LUSTRE)


@pytest.mark.parametrize("part", PARTS)
def test_no_warning_on_the_stack(cluster: Synthesized, part: str) -> None:
    Annotations.from_stack(getattr(cluster.stacks, part)).has_no_warning("*", Match.any_value())


@pytest.mark.parametrize("part", PARTS)
def test_cfn_lint_finds_nothing(cluster: Synthesized, part: str) -> None:
    # W3005 finds a dependency that a reference already makes; the CDK writes such by itself.
    # W3010 finds names of zones: they come from the cluster file, so that nothing is looked up.
    config = ManualArgs(ignore_checks=["W3005", "W3010"], regions=["us-west-2"])

    assert lint(json.dumps(cluster.template(part)), config=config) == []


def test_aws_solutions_checks_succeed(cluster: Synthesized) -> None:
    report = AwsSolutionsChecks(cluster.app).validate_scope(cluster.app)

    assert report.success, [violation.rule_name for violation in report.violations]


def test_aws_solutions_checks_would_find_an_open_bucket() -> None:
    stack = new_stack()
    s3.Bucket(stack, "Open")

    assert not AwsSolutionsChecks(stack.node.root).validate_scope(stack.node.root).success


def test_nothing_has_to_be_looked_up(cluster: Synthesized) -> None:
    assert "missing" not in json.loads((cluster.folder / "manifest.json").read_text())
    assert json.loads((ROOT / "cdk.json").read_text())["lookups"] is False


def test_stacks_are_named_after_the_cluster(dev: Synthesized) -> None:
    names = [getattr(dev.stacks, part).stack_name for part in PARTS]

    assert names == [
        "slipway-dev-network",
        "slipway-dev-storage",
        "slipway-dev-access",
        "slipway-dev-manifest",
    ]


def test_retained_storage_outlives_its_stack() -> None:
    storage = synthesize(LARGE).template("storage")["Resources"].values()
    kept = {each["Type"] for each in storage if each.get("DeletionPolicy") == "Retain"}

    assert {"AWS::S3::Bucket", "AWS::FSx::FileSystem"} <= kept


def test_references_between_stacks_cannot_replace_the_file_system() -> None:
    """Weak references make change sets plan its replacement: aws-cdk issue 38829."""
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]

    assert flags["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
