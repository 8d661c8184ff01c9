"""Secrets of a cluster: the role reads these and no others, and an isolated network leads to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from constructs.permissions import INLINE_POLICIES_SIZE, MANAGED_POLICY_SIZE

from launcher.cluster.files import load_cluster_file
from launcher.cluster.specification import MOST_SECRETS, ClusterSpec
from tests.emulator.iam_policy import allows, flat
from tests.stacks.synthesis import ROOT, Synthesized, dev_spec, synthesize

SECRETS = "arn:aws:secretsmanager:us-west-2:111122223333:secret:"
ELSEWHERE = "arn:aws:secretsmanager:eu-west-1:444455556666:secret:team/wandb-AbCdEf"
KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
THROUGH_SECRETS = {"kms:ViaService": "secretsmanager.us-west-2.amazonaws.com"}
NAMES = {"AWS::Partition": "aws", "AWS::AccountId": "111122223333", "AWS::Region": "us-west-2"}


@pytest.fixture(scope="module")
def cluster() -> Synthesized:
    isolated = load_cluster_file(ROOT / "clusters" / "isolated.yaml").model_dump()
    secrets = {"secrets": ["team/hf", ELSEWHERE], "secret_keys": [KEY]}
    return synthesize(ClusterSpec.model_validate({**isolated, **secrets}))


def of_the_jobs(cluster: Synthesized) -> dict[str, Any]:
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    statements = role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]
    return {"Statement": flat(statements, NAMES)}


@pytest.mark.parametrize(
    ("secret", "may"),
    [
        (f"{SECRETS}team/hf-AbCdEf", True),
        (f"{SECRETS}team/hf-other-AbCdEf", False),
        (f"{SECRETS}team/hf-AbCdEfg", False),
        (f"{SECRETS}other/team/hf-AbCdEf", False),
        (f"{SECRETS.replace('1111', '9999')}team/hf-AbCdEf", False),
        (ELSEWHERE, True),
        (ELSEWHERE.replace("AbCdEf", "XXXXXX"), False),
    ],
)
def test_the_role_reads_the_named_secrets_and_no_others(cluster: Synthesized, secret: str, may: bool) -> None:
    jobs = of_the_jobs(cluster)

    assert allows(jobs, "secretsmanager:GetSecretValue", secret, {}) is may
    assert not allows(jobs, "secretsmanager:PutSecretValue", secret, {})


def test_their_keys_decrypt_for_secrets_manager_alone(cluster: Synthesized) -> None:
    jobs = of_the_jobs(cluster)

    assert allows(jobs, "kms:Decrypt", KEY, THROUGH_SECRETS)
    assert not allows(jobs, "kms:Decrypt", KEY, {"kms:ViaService": "s3.us-west-2.amazonaws.com"})
    assert not allows(jobs, "kms:Decrypt", KEY, {})


def test_an_isolated_network_leads_to_them_where_there_are_any(
    cluster: Synthesized, isolated: Synthesized
) -> None:
    def leads(to: Synthesized) -> bool:
        return "secretsmanager" in str(to.resources("network", "AWS::EC2::VPCEndpoint"))

    assert leads(cluster)
    assert not leads(isolated)


def test_the_longest_names_fit_into_the_policies() -> None:
    names = [f"{number:02}{'n' * 510}" for number in range(MOST_SECRETS)]
    cluster = synthesize(dev_spec(secrets=names))
    (role,) = cluster.resources("access", "AWS::IAM::Role").values()
    managed = [
        each["Properties"]["PolicyDocument"]
        for name, each in cluster.resources("access", "AWS::IAM::ManagedPolicy").items()
        if name.startswith("TrainingRole")
    ]
    sizes = [len(json.dumps(flat(each, NAMES), separators=(",", ":"))) for each in managed]
    inline = json.dumps(flat(role["Properties"]["Policies"][0]["PolicyDocument"], NAMES))

    assert len(inline.replace(" ", "")) <= INLINE_POLICIES_SIZE
    assert max(sizes) <= MANAGED_POLICY_SIZE
    assert 1 <= len(sizes) <= 2
