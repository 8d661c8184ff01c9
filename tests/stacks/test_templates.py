"""What holds for every template: the checkers are content, and nothing has to be looked up."""

from __future__ import annotations

import json

import pytest
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from cdk_nag import AwsSolutionsChecks
from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner

from launcher.cluster.files import load_cluster_file
from tests.stacks import synthesis
from tests.stacks.synthesis import (
    CLUSTERS,
    ROOT,
    Synthesized,
    dev_spec,
    new_stack,
    synthesize,
    synthesize_anew,
)

WITH_EVERYTHING = dev_spec(
    name="everything",
    availability_zones=[f"us-west-2{letter}" for letter in "abcdef"],
    vpc={"cidr": "10.0.0.0/16", "nat": False},
    hosts=[{"instance_type": "ml.p5.48xlarge", "count": 64}],
    lustre={
        "deployment": "PERSISTENT_2",
        "throughput": 1000,
        "capacity_gib": 57600,
        "metadata": {"iops": 12000},
        "efa": True,
        "associations": [
            {
                "path": f"/data/{n}",
                "s3_uri": f"s3://corpus/{n}",
                "auto_import": ["new"],
                "auto_export": ["new"],
            }
            for n in range(8)
        ],
    },
    encryption="new-key",
    data_buckets=["corpus", "more-data"],
    data_keys=["arn:aws:kms:us-west-2:111122223333:key/aaaaaaaa-12ab-34cd-56ef-1234567890ab"],
    remote_debug=True,
    secrets=["team/hf", "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/wandb-AbCdEf"],
    secret_keys=["arn:aws:kms:us-west-2:111122223333:key/bbbbbbbb-12ab-34cd-56ef-1234567890ab"],
    role={"permissions_boundary": "arn:aws:iam::111122223333:policy/Boundary"},
    teams={"research": {"launchers": ["arn:aws:iam::111122223333:role/research"]}, "speech": {}},
    launchers=["arn:aws:iam::111122223333:role/teams/research"],
    queue={"shares": {"research": 1, "production": 0.5}},
    observability={"email": "team@example.com", "monthly_budget_usd": 1000},
    removal_policy="retain",
)
ON_WHAT_EXISTS = dev_spec(
    name="guest",
    availability_zones=[],
    vpc={
        "existing": {
            "vpc_id": "vpc-0123456789abcdef0",
            "subnets": [{"id": "subnet-0123456789abcdef0", "availability_zone": "us-west-2a"}],
        }
    },
    lustre={"deployment": "PERSISTENT_1", "throughput": 12, "capacity_gib": 6000},
    buckets={"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"},
    data_keys=["arn:aws:kms:us-west-2:111122223333:key/aaaaaaaa-12ab-34cd-56ef-1234567890ab"],
    role={"existing": "arn:aws:iam::111122223333:role/training"},
    encryption="arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab",
)
IN_NEW_SUBNETS = dev_spec(
    name="added",
    availability_zones=["usw2-az1", "usw2-az3"],
    vpc={
        "existing": {
            "vpc_id": "vpc-0123456789abcdef0",
            "new_subnets": {
                "cidr": "100.64.0.0/20",
                "associate": True,
                "nat_gateway_id": "nat-0123456789abcdef0",
            },
        }
    },
    removal_policy="retain",
)
WITHOUT_LUSTRE = dev_spec(name="plain", lustre=None, vpc={"cidr": "10.64.0.0/20", "nat": False})
TIERED = dev_spec(
    name="tiered",
    lustre={
        "deployment": "PERSISTENT_2",
        "intelligent_tiering": {"throughput_mbps": 4000, "read_cache": "proportional"},
        "metadata": {"iops": 6000},
        "maintenance": "sun 03:00",
        "backup": {"retention_days": 7, "start": "04:00"},
    },
    observability={},
)
OTHERS = {
    spec.name: spec for spec in (WITH_EVERYTHING, ON_WHAT_EXISTS, IN_NEW_SUBNETS, WITHOUT_LUSTRE, TIERED)
}


@pytest.fixture(scope="session", params=[*CLUSTERS, *OTHERS])
def cluster(request: pytest.FixtureRequest) -> Synthesized:
    if request.param in CLUSTERS:
        return synthesis.cluster(request.param)
    return synthesize(OTHERS[request.param])


@pytest.mark.few_cases("everything")
def test_no_warning_on_any_stack(cluster: Synthesized) -> None:
    for part in cluster.parts:
        Annotations.from_stack(getattr(cluster.stacks, part)).has_no_warning("*", Match.any_value())


@pytest.fixture(scope="module")
def linter() -> Runner:
    """cfn-lint for all templates: it loads its rules for a third of the time."""
    # W3005 finds a dependency that a reference already makes; the CDK writes such by itself.
    # W3010 finds names of zones: they come from the cluster file, so that nothing is looked up.
    return Runner(ConfigMixIn(ignore_checks=["W3005", "W3010"], regions=["us-west-2"]))


@pytest.mark.few_cases("everything")
def test_cfn_lint_finds_nothing(cluster: Synthesized, linter: Runner) -> None:
    for part in cluster.parts:
        template, unreadable = decode_str(json.dumps(cluster.template(part)))
        assert unreadable == []
        assert list(linter.validate_template(template)) == []


def test_every_template_stays_below_the_limits_of_cloudformation() -> None:
    everything = synthesize(WITH_EVERYTHING)

    for part in everything.parts:
        template = everything.template(part)
        assert len(template["Resources"]) < 500
        assert len(json.dumps(template)) < 1_000_000


def test_storage_that_grows_by_itself_is_not_watched_for_filling_up() -> None:
    alarms = synthesize(TIERED).resources("observability", "AWS::CloudWatch::Alarm").values()

    assert alarms
    assert not [each for each in alarms if "FreeDataStorageCapacity" in json.dumps(each)]


@pytest.mark.few_cases("dev")
@pytest.mark.parametrize("name", CLUSTERS)
def test_second_synthesis_changes_nothing(name: str) -> None:
    file = ROOT / "clusters" / f"{name}.yaml"
    first, second = synthesis.cluster(name), synthesize_anew(load_cluster_file(file))

    assert {part: first.template(part) for part in first.parts} == {
        part: second.template(part) for part in second.parts
    }


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
    names = [getattr(dev.stacks, part).stack_name for part in dev.parts]

    assert names == [
        "slipway-dev-network",
        "slipway-dev-storage",
        "slipway-dev-access",
        "slipway-dev-manifest",
    ]


def test_references_between_stacks_cannot_replace_the_file_system() -> None:
    """Weak references make change sets plan its replacement: aws-cdk issue 38829."""
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]

    assert flags["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
