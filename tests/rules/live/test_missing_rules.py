"""The rules to add: exactly those by whose lack a finding came, naming groups as their peers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.account.facts import Unverified
from launcher.cluster.security_groups import SecurityGroup
from launcher.rules.live.missing_rules import MissingRule, missing_rules
from tests.rules.live.states import (
    ANY,
    JOB_GROUP,
    OUT,
    SERVERS,
    found,
    group,
    itself,
    lustre,
    rule,
    subject,
)

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
