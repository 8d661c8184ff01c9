"""Roles, keys and teams in the cluster file: what is accepted, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.test_specification import SMALLEST, load, problems

KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ROLE = "arn:aws:iam::111122223333:role/training"


def test_roles_keys_and_teams_are_read(tmp_path: Path) -> None:
    spec = load(
        f"{SMALLEST}data_buckets: [corpus]\ndata_keys: ['{KEY}']\nrole: {{existing: '{ROLE}'}}\n"
        f"teams: {{research: {{launchers: ['{ROLE}']}}, research2: {{}}}}\n",
        tmp_path,
    )

    assert (spec.data_keys, spec.role and spec.role.existing) == ([KEY], ROLE)
    assert {name: team.launchers for name, team in spec.teams.items()} == {
        "research": [ROLE],
        "research2": [],
    }


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("data_keys: [mine]", "`data_keys.0`: 'mine' is not the ARN of a KMS key"),
        (
            f"data_keys: ['{KEY.replace('us-west-2', 'eu-west-1')}']",
            "the key is in eu-west-1, the cluster in us-west-2",
        ),
        (f"data_keys: ['{KEY}', '{KEY}']", "is there twice"),
        ("role: {}", "`role` names neither a role nor a boundary"),
        ("role: {existing: training}", "role.existing"),
        ("role: {permissions_boundary: 'arn:aws:iam::1:policy/x'}", "role.permissions_boundary"),
        ("teams: {Research: {}}", "teams"),
        ("teams: {research-: {}}", "teams"),
        (
            "teams: {research: {}, research-nlp: {}}",
            "the jobs of 'research-nlp' would begin with 'research-'",
        ),
        ("teams: {re-search: {}, research: {}}", "'re-search' and 'research' differ in hyphens only"),
    ],
)
def test_what_cannot_be_is_refused(lines: str, told: str, tmp_path: Path) -> None:
    (problem,) = problems(f"{SMALLEST}data_buckets: [corpus]\n{lines}\n", tmp_path)

    assert told in problem
    assert "SPEC003" in problem


def test_keys_need_a_bucket_that_exists(tmp_path: Path) -> None:
    (problem,) = problems(f"{SMALLEST}data_keys: ['{KEY}']\n", tmp_path)
    assert "there is no bucket that the keys could be of" in problem

    assert load(f"{SMALLEST}data_keys: ['{KEY}']\nbuckets: {{output: models}}\n", tmp_path).data_keys == [KEY]


def test_as_many_data_buckets_as_policies_can_name(tmp_path: Path) -> None:
    def buckets(count: int) -> str:
        return f"{SMALLEST}data_buckets: [{', '.join(f'corpus-{number}' for number in range(count))}]\n"

    assert len(load(buckets(100), tmp_path).data_buckets) == 100
    (problem,) = problems(buckets(101), tmp_path)
    assert "data_buckets" in problem
    assert "100" in problem
