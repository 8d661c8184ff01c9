"""Secrets by name and by ARN; and what a cluster file takes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.cluster.secret_ids import names_the_same, secret_name
from tests.cluster.test_access_specification import KEY, SMALLEST, load, problems

ARN = "arn:aws:secretsmanager:us-west-2:111122223333:secret:team/hf-AbCdEf"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("team/hf", "team/hf", True),
        ("team/hf", ARN, True),
        (ARN, "team/hf", True),
        (ARN, ARN, True),
        (ARN, ARN.replace("us-west-2", "eu-west-1"), False),
        ("team/hf", "team/h", False),
        ("team/hf-AbCdEf", ARN, False),
        ("hf", ARN, False),
    ],
)
def test_a_name_and_an_arn_may_name_the_same(one: str, other: str, same: bool) -> None:
    assert names_the_same(one, other) is same


def test_the_name_is_in_the_arn() -> None:
    assert secret_name(ARN) == secret_name("team/hf") == "team/hf"


def test_a_cluster_file_names_secrets_and_their_keys(tmp_path: Path) -> None:
    spec = load(f"{SMALLEST}secrets: [team/hf, '{ARN}']\nsecret_keys: ['{KEY}']\n", tmp_path)
    assert (spec.secrets, spec.secret_keys) == (["team/hf", ARN], [KEY])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("secrets: ['a b']", "`secrets.0`"),
        ("secrets: [hf, hf]", "'hf' is there twice"),
        (f"secret_keys: ['{KEY}']", "there is no secret that the keys could be of"),
        ("secrets: [hf]\nsecret_keys: [mine]", "'mine' is not the ARN of a KMS key"),
        (
            f"secrets: [hf]\nsecret_keys: ['{KEY.replace('us-west-2', 'eu-west-1')}']",
            "a secret's key is of its region",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, told: str) -> None:
    (problem,) = problems(f"{SMALLEST}{text}\n", tmp_path)
    assert told in problem
