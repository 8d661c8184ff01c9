"""Access of a cluster that takes up what is there: a role, a boundary, keys of buckets; and its teams."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import ClusterSpec
from tests.emulator.iam_policy import Context, allows
from tests.stacks.synthesis import ROOT, Synthesized, dev_spec, synthesize
from tests.stacks.test_access import (
    A_JOB_OF_OURS,
    CHECKPOINTS,
    CODE,
    JOB,
    LOGS,
    OF_OURS,
    OUTPUT,
    TUNING_JOB,
    WHERE_NOTHING_LIES,
    WHILE_IT_IS_CREATED,
    of_launchers,
)

ROLE = "arn:aws:iam::111122223333:role/ml/training"
BOUNDARY = "arn:aws:iam::111122223333:policy/Boundary"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
NAMES = {"code": "our-code", "checkpoints": "our-checkpoints", "output": "our-output"}
IN_QUEUE = JOB.replace("llama-1", "AWSBatchresearch-llama-1a2b")


def actions_with(template: dict[str, Any], kind: str, key: str) -> set[str]:
    """The actions that policies of a kind allow on a key."""
    found: set[str] = set()
    for resource in template["Resources"].values():
        properties = resource["Properties"]
        documents = [
            properties.get("PolicyDocument"),
            *(each["PolicyDocument"] for each in properties.get("Policies", ())),
        ]
        for document in documents if resource["Type"] == kind else ():
            for statement in document["Statement"] if document else ():
                if key in statement["Resource"]:
                    actions = statement["Action"]
                    found |= {actions} if isinstance(actions, str) else set(actions)
    return found


@pytest.fixture(scope="module")
def on_a_role() -> Synthesized:
    return synthesize(dev_spec(role={"existing": ROLE}, observability={}))


def test_no_role_is_created_where_there_is_one(on_a_role: Synthesized) -> None:
    assert on_a_role.resources("access", "AWS::IAM::Role") == {}


def test_the_manifest_and_the_launchers_policy_name_the_existing_role(on_a_role: Synthesized) -> None:
    assert ROLE in str(on_a_role.template("manifest"))
    policy = of_launchers_of(on_a_role)

    assert allows(policy, "iam:PassRole", ROLE, {"iam:PassedToService": "sagemaker.amazonaws.com"})


def test_the_jobs_of_an_existing_role_are_watched(on_a_role: Synthesized) -> None:
    rules = on_a_role.resources("observability", "AWS::Events::Rule").values()

    assert [rule for rule in rules if ROLE in str(rule["Properties"]["EventPattern"])]


def test_a_boundary_is_on_every_role_also_on_those_of_the_cdk() -> None:
    cluster = synthesize(dev_spec(role={"permissions_boundary": BOUNDARY}))
    roles = {
        f"{part} {name}": role["Properties"].get("PermissionsBoundary")
        for part in cluster.parts
        for name, role in cluster.resources(part, "AWS::IAM::Role").items()
    }

    assert set(roles.values()) == {BOUNDARY}
    assert any("CustomVpcRestrictDefaultSG" in name for name in roles)


def test_without_a_boundary_no_role_has_one(dev: Synthesized) -> None:
    assert "PermissionsBoundary" not in str([dev.template(part) for part in dev.parts])


def test_jobs_read_with_the_keys_of_data_buckets() -> None:
    template = synthesize(dev_spec(data_buckets=["corpus"], data_keys=[KEY])).template("access")

    assert actions_with(template, "AWS::IAM::Role", KEY) == {"kms:Decrypt"}
    assert actions_with(template, "AWS::IAM::ManagedPolicy", KEY) == set()


def test_jobs_and_launchers_write_with_the_keys_of_existing_buckets() -> None:
    template = synthesize(dev_spec(buckets=NAMES, data_keys=[KEY])).template("access")

    for kind in ("AWS::IAM::Role", "AWS::IAM::ManagedPolicy"):
        assert actions_with(template, kind, KEY) == {"kms:Decrypt", "kms:GenerateDataKey"}


@pytest.fixture(scope="module")
def of_the_team() -> dict[str, Any]:
    spec = load_cluster_file(ROOT / "clusters" / "p5-large.yaml").model_dump()
    teams = {"research": {"launchers": [ROLE]}, "speech": {}}
    return of_launchers(
        synthesize(ClusterSpec.model_validate({**spec, "buckets": NAMES, "teams": teams})), "TeamResearch"
    )


@pytest.mark.parametrize(
    ("action", "resource", "context"),
    [
        ("sagemaker:CreateTrainingJob", JOB, A_JOB_OF_OURS),
        ("sagemaker:CreateHyperParameterTuningJob", TUNING_JOB, A_JOB_OF_OURS),
        ("sagemaker:AddTags", JOB, WHILE_IT_IS_CREATED),
        ("sagemaker:StopTrainingJob", JOB, OF_OURS),
        ("sagemaker:UpdateTrainingJob", JOB, OF_OURS),
        ("sagemaker:DescribeTrainingJob", JOB, OF_OURS),
        ("s3:GetObject", f"{OUTPUT}/llama-1/model.tar.gz", {}),
        ("s3:GetObject", f"{CHECKPOINTS}/llama-1/1", {}),
        ("s3:PutObject", f"{CHECKPOINTS}/llama-1/1", {}),
        ("logs:GetLogEvents", f"{LOGS}:log-stream:llama-1/algo-1", {}),
    ],
)
def test_a_team_may_do_with_its_own_jobs_only(
    of_the_team: dict[str, Any], action: str, resource: str, context: Context
) -> None:
    assert allows(of_the_team, action, resource.replace("llama-1", "research-llama-1"), context)
    for others in ("llama-1", "speech-llama-1", "researcher-1", "a-research-1"):
        assert not allows(of_the_team, action, resource.replace("llama-1", others), context)


def test_a_team_may_follow_what_the_queue_makes_of_its_jobs(of_the_team: dict[str, Any]) -> None:
    assert allows(of_the_team, "sagemaker:DescribeTrainingJob", IN_QUEUE, OF_OURS)
    assert allows(
        of_the_team, "logs:GetLogEvents", f"{LOGS}:log-stream:AWSBatchresearch-llama-1a2b/algo-1", {}
    )
    assert not allows(of_the_team, "sagemaker:StopTrainingJob", IN_QUEUE, OF_OURS)
    assert not allows(
        of_the_team, "sagemaker:DescribeTrainingJob", IN_QUEUE.replace("research", "speech"), OF_OURS
    )


def test_code_is_shared_by_the_teams_and_written_once(of_the_team: dict[str, Any]) -> None:
    source = f"{CODE}/code/1a2b/source.tar.gz"

    assert allows(of_the_team, "s3:GetObject", source, {})
    assert allows(of_the_team, "s3:PutObject", source, WHERE_NOTHING_LIES)
    assert not allows(of_the_team, "s3:PutObject", source, {"s3:ObjectCreationOperation": "true"})


def test_a_team_asks_iam_about_its_own_roles(of_the_team: dict[str, Any]) -> None:
    assert allows(of_the_team, "iam:SimulatePrincipalPolicy", ROLE, {})


def test_each_team_has_an_output_with_its_policies() -> None:
    outputs = synthesize(dev_spec(teams={"research": {}, "speech-2": {}})).template("access")["Outputs"]

    assert {"LauncherPolicyArn", "TeamResearchPolicyArn", "TeamSpeech2PolicyArn"} <= set(outputs)


def of_launchers_of(cluster: Synthesized) -> dict[str, Any]:
    (policy,) = cluster.resources("access", "AWS::IAM::ManagedPolicy").values()
    document: dict[str, Any] = policy["Properties"]["PolicyDocument"]
    return {"Statement": [each for each in document["Statement"] if each["Resource"] == ROLE]}
