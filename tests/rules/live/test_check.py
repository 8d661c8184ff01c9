"""The live rules together: a sound account, the facts that are not known, and that all are called."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.account.facts import AccountFacts, Unverified
from launcher.cluster.traffic import SecurityGroup
from launcher.diagnosis.diagnose import diagnose
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import CheckOutcome, Diagnosis
from launcher.failure_modes import network
from launcher.failure_modes.model import Stage
from launcher.failure_modes.registry import CATALOGUE, registered
from launcher.rules.live import check
from launcher.rules.live.check import RULES, MissingRule, check_account, checked, missing_rules, suspects_of
from launcher.rules.live.subject import live_rule
from tests.rules.live.states import (
    ANY,
    JOB_GROUP,
    OUT,
    SERVERS,
    SOUND,
    found,
    group,
    itself,
    lustre,
    rule,
    subject,
)

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
    "file_system": {"FSX001", "FSX002", "FSX003", "FSX004", "FSX006", "S3002"},
    "associations": {"FSX006", "S3002"},
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


REPAIRED = {"EFA001", "EFA002", "FSX004"}
IN, TO = itself(JOB_GROUP)


def texts(**state: Any) -> list[str]:
    return [f"{each.group_id} {each}" for each in missing_rules(subject(**state))]


def test_a_sound_account_lacks_none() -> None:
    assert texts() == []


def test_rules_are_told_as_they_would_be_added() -> None:
    assert texts(groups=(group(JOB_GROUP, OUT),), file_system_groups=(group(SERVERS, OUT),)) == [
        "sg-job ingress: all traffic from sg-job (itself)",
        "sg-job egress: all traffic to sg-job (itself)",
        "sg-servers ingress: TCP 988 from sg-job",
        "sg-servers ingress: TCP 1018-1023 from sg-job",
        "sg-job ingress: TCP 988 from sg-servers",
        "sg-job ingress: TCP 1018-1023 from sg-servers",
    ]


def test_the_group_that_is_nearest_gets_the_rule() -> None:
    groups = (group("sg-a", OUT, *lustre("ingress", SERVERS)), group("sg-b", *itself("sg-b")[:1]))
    assert texts(groups=groups, file_system_groups=()) == ["sg-b egress: all traffic to sg-b (itself)"]


def test_a_group_beside_a_good_one_is_left_alone() -> None:
    groups = (group(JOB_GROUP, IN, TO, OUT, *lustre("ingress", SERVERS)), group("sg-b", OUT))
    assert texts(groups=groups) == []


@pytest.mark.parametrize("fact", ["groups", "file_system_groups", "file_system", "subnets"])
def test_nothing_is_added_where_it_is_not_known_what_is_there(fact: str) -> None:
    denied = Unverified("it", "ec2:DescribeIt", "not you")
    state = {"groups": (group(JOB_GROUP, IN, TO),), fact: denied}
    assert texts(**state) == []


def test_a_shared_group_gets_its_rules_once() -> None:
    shared = (group(JOB_GROUP, OUT),)
    assert texts(groups=shared, file_system_groups=shared) == [
        "sg-job ingress: all traffic from sg-job (itself)",
        "sg-job egress: all traffic to sg-job (itself)",
    ]


SOME_RULES = st.lists(
    st.sampled_from(
        [IN, TO, OUT, rule("ingress", ipv4=[ANY]), *lustre("ingress", SERVERS), *lustre("egress", JOB_GROUP)]
    ),
    max_size=4,
)


@given(hosts=SOME_RULES, others=SOME_RULES, servers=SOME_RULES)
def test_with_the_rules_added_nothing_is_found_any_more(hosts: Any, others: Any, servers: Any) -> None:
    groups = {
        JOB_GROUP: group(JOB_GROUP, *hosts),
        "sg-b": group("sg-b", *others),
        SERVERS: group(SERVERS, *servers),
    }
    missing = missing_rules(_state(groups))
    for each in missing:
        groups[each.group_id] = _with(groups[each.group_id], each)

    assert missing_rules(_state(groups)) == ()
    left = found(groups=(groups[JOB_GROUP], groups["sg-b"]), file_system_groups=(groups[SERVERS],))
    assert [each.code for each in left if each.code in REPAIRED and each.severity == "error"] == []


def _state(groups: dict[str, SecurityGroup]) -> Any:
    return subject(groups=(groups[JOB_GROUP], groups["sg-b"]), file_system_groups=(groups[SERVERS],))


def _with(held: SecurityGroup, missing: MissingRule) -> SecurityGroup:
    return group(held.id, *held.rules, missing.rule)


LUSTRE = ("FSX001", "FSX002", "FSX003", "FSX004")
BETWEEN = ("EFA001", "EFA002", "NCCL007")


def failed(*lines: str) -> Diagnosis:
    return diagnose([Record(None, "algo-1", line) for line in lines])


def outcomes(codes: tuple[str, ...], **state: Any) -> dict[str, str]:
    """What is said of each code in a state, of a job of which only the request is known."""
    return {each.code: each.outcome.value for each in checked(replace(subject(**state), job=None), codes)}


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("ProcessGroupNCCL.cpp: Some NCCL operations have failed or timed out", BETWEEN),
        ("mount.lustre: mount 10.0.0.5@tcp:/abcd at /fsx failed: Connection timed out", LUSTRE),
        ("CapacityError: Unable to provision requested ML compute capacity", ("CAP002",)),
        ("KeyError: 'labels'", ()),
        ("step 3 loss 0.1", ()),
    ],
)
def test_each_failure_has_its_suspects(line: str, codes: tuple[str, ...]) -> None:
    assert suspects_of(failed(line), hosts=2) == codes


def test_every_suspect_is_a_code_that_the_live_stage_finds() -> None:
    live = {mode.code for each in registered() if each.stage is Stage.LIVE for mode in each.modes}
    named = {code for codes in check._SUSPECTS.values() for code in codes}
    assert named <= live
    assert named | set(check._SUSPECTS) <= set(CATALOGUE)


def test_in_a_sound_account_every_suspect_is_right() -> None:
    codes = tuple(dict.fromkeys(code for each in check._SUSPECTS.values() for code in each))
    assert outcomes(codes) == dict.fromkeys(codes, "right")


def test_closed_ports_are_found_with_the_file_systems_groups() -> None:
    assert outcomes(LUSTRE, file_system_groups=(group("sg-servers"),)) == {
        **dict.fromkeys(LUSTRE, "right"),
        "FSX004": "wrong",
    }


def test_a_group_beside_one_that_carries_the_traffic_is_not_wrong() -> None:
    groups = (group(JOB_GROUP, *itself(JOB_GROUP), OUT), group("sg-other", OUT))
    assert outcomes(BETWEEN, groups=groups)["EFA001"] == "right"


def test_egress_to_anywhere_is_no_egress_to_itself() -> None:
    open_to_all = group(JOB_GROUP, rule("ingress", groups=[JOB_GROUP]), rule("egress", ipv4=[ANY]))
    found = checked(subject(groups=(open_to_all,)), BETWEEN)
    assert [(each.code, each.outcome) for each in found if each.outcome is not CheckOutcome.RIGHT] == [
        ("EFA002", CheckOutcome.WRONG)
    ]


def test_of_a_job_without_a_vpc_or_a_mount_nothing_is_said() -> None:
    request = {"VpcConfig": None, "InputDataConfig": None}
    bare = {"subnets": None, "groups": None, "file_system": None}
    assert outcomes((*BETWEEN, *LUSTRE), request=request, **bare) == {}
