"""The live rules together: a sound account, the facts that are not known, and that all are called."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.account.facts import AccountFacts, Unverified
from launcher.failure_modes import network
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import registered
from launcher.rules.live.check import RULES, check_account
from launcher.rules.live.rule import live_rule
from tests.rules.live.states import JOB_GROUP, OUT, SOUND, found, group, subject

SINGLE_FACTS = sorted(
    field.name
    for field in dataclasses.fields(AccountFacts)
    if field.name not in {"region", "buckets", "prefixes", "encryption", "endpoints", "endpoint_groups"}
)
DENIED = Unverified("the thing", "svc:DescribeThing", "AWS refused: AccessDenied: not you.")
JUDGED_BY = {
    "subnets": {"EFA003", "EFA004", "NCCL007", "FSX002", "FSX004", "CAP002"},
    "groups": {"EFA001", "EFA002", "EFA003", "NCCL007", "FSX004"},
    "route_tables": {"EFA003"},
    "acls": {"EFA003", "NCCL007"},
    "file_system": {"FSX001", "FSX002", "FSX003", "FSX004", "FSX006"},
    "associations": {"FSX006"},
    "file_system_groups": {"FSX004"},
    "role": {"IAM001"},
    "permissions": {"IAM001", "S3002"},
    "caller": {"IAM001"},
    "image": {"IMG001"},
    "quota": {"CAP002"},
    "warm_pool_quota": {"CAP002"},
    "running_jobs": {"CKPT001"},
    "offered_in": {"CAP002"},
}


def test_a_sound_account_has_no_findings() -> None:
    assert found() == []


def test_every_registered_rule_is_called() -> None:
    rules = {item.function for item in registered() if item.stage is Stage.LIVE}
    assert rules == set(RULES)


@pytest.mark.parametrize("fact", SINGLE_FACTS)
def test_a_fact_that_could_not_be_had_is_said_with_the_codes_of_its_rules(fact: str) -> None:
    findings = found(**{fact: DENIED})

    assert {each.code for each in findings} == JUDGED_BY[fact]
    assert {(each.severity, each.verified) for each in findings} == {("warning", False)}
    assert all("svc:DescribeThing" in each.message for each in findings)


@pytest.mark.parametrize("fact", SINGLE_FACTS)
def test_it_is_said_once_for_each_code(fact: str) -> None:
    codes = [each.code for each in found(**{fact: DENIED})]
    assert len(codes) == len(set(codes))


def test_what_a_job_does_not_need_gives_no_finding() -> None:
    """No VPC, no file system, an image outside of ECR, and nothing on S3."""
    bare = {"VpcConfig": None, "InputDataConfig": [], "CheckpointConfig": None, "OutputDataConfig": {}}
    facts = {name: None for name in SINGLE_FACTS if name != "role"}
    assert found(request=bare, buckets={}, prefixes={}, endpoints=None, endpoint_groups=None, **facts) == []


@given(
    unknown=st.dictionaries(st.sampled_from(SINGLE_FACTS), st.sampled_from([None, DENIED])),
    lost=st.booleans(),
)
def test_no_gap_in_the_facts_makes_a_rule_fail_or_pass_for_an_error(
    unknown: dict[str, Any], lost: bool
) -> None:
    if lost:
        unknown |= {"endpoints": DENIED, "endpoint_groups": DENIED}
    findings = check_account(subject(**unknown))
    absent = {"IAM001": "role", "FSX001": "file_system"}
    for each in findings:
        stands_for_absence = each.code in absent and unknown.get(absent[each.code], DENIED) is None
        assert not each.verified or stands_for_absence


def test_every_finding_has_a_remedy_and_a_source() -> None:
    for each in found(groups=(), subnets=(), file_system=None, role=None):
        assert each.stage is Stage.LIVE
        assert each.remedy and each.source and each.subject


def test_findings_name_the_field_of_the_job_file_to_look_at() -> None:
    paths = {
        each.code: each.path for each in found(groups=(group(JOB_GROUP, OUT),), file_system=None, role=None)
    }
    assert paths == {
        "EFA001": ("network", "security_group_ids"),
        "EFA002": ("network", "security_group_ids"),
        "IAM001": ("role_arn",),
        "FSX001": ("inputs", "corpus"),
    }


def test_a_rule_cannot_ask_for_a_fact_that_nobody_gathers() -> None:
    with pytest.raises(ValueError, match="no_such_fact"):
        live_rule(network.NO_WAY_OUT, "no_such_fact")


def test_the_sound_account_has_every_fact_that_is_judged() -> None:
    missing = {name for name in SINGLE_FACTS if getattr(SOUND, name) is None}
    assert missing == {"warm_pool_quota"}
