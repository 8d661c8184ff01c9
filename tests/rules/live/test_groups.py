"""EFA001 and EFA002: the hosts of a job may talk to each other by one group that names itself."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.cluster.security_groups import SecurityGroupRule
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
    severities,
)

IN, TO = itself(JOB_GROUP)
REST = lustre("ingress", SERVERS)


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        pytest.param([IN, TO, OUT], set(), id="all three rules"),
        pytest.param([IN, rule("egress", ipv4=[ANY], groups=[JOB_GROUP])], set(), id="itself beside a CIDR"),
        pytest.param(
            [rule("ingress", groups=["sg-x", JOB_GROUP]), TO, OUT], set(), id="itself beside another group"
        ),
        pytest.param([IN, OUT], {"EFA002"}, id="any address is not itself"),
        pytest.param([IN, rule("egress", ipv6=["::/0"]), OUT], {"EFA002"}, id="any IPv6 address either"),
        pytest.param([IN, rule("egress", prefix_lists=["pl-1"]), OUT], {"EFA002"}, id="nor a prefix list"),
        pytest.param([TO, OUT], {"EFA001"}, id="no ingress"),
        pytest.param([rule("ingress", ipv4=["10.0.0.0/16"]), TO, OUT], {"EFA001"}, id="the VPC's range"),
        pytest.param(
            [rule("ingress", "tcp", (0, 65535), groups=[JOB_GROUP]), TO, OUT], {"EFA001"}, id="TCP 0-65535"
        ),
        pytest.param(
            [IN, rule("egress", "tcp", (0, 65535), groups=[JOB_GROUP]), OUT],
            {"EFA002"},
            id="TCP 0-65535 out",
        ),
        pytest.param([OUT], {"EFA001", "EFA002"}, id="neither"),
    ],
)
def test_all_traffic_to_itself_needs_a_rule_that_names_the_group(
    rules: list[SecurityGroupRule], codes: set[str]
) -> None:
    findings = found(groups=(group(JOB_GROUP, *rules, *REST),))
    assert {each.code for each in findings if each.code.startswith("EFA00")} == codes
    assert all(each.severity == "error" for each in findings)


A_IN, A_TO = itself("sg-a")
B_IN, B_TO = itself("sg-b")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param([A_IN, A_TO], [B_IN, B_TO], {}, id="both good"),
        pytest.param(
            [A_IN, A_TO], [OUT], {("EFA001", "sg-b"): "warning", ("EFA002", "sg-b"): "warning"}, id="one good"
        ),
        pytest.param(
            [OUT],
            [B_IN, B_TO],
            {("EFA001", "sg-a"): "warning", ("EFA002", "sg-a"): "warning"},
            id="the second is good",
        ),
        pytest.param(
            [rule("ingress", groups=["sg-b"]), rule("egress", groups=["sg-b"])],
            [rule("ingress", groups=["sg-a"]), rule("egress", groups=["sg-a"])],
            {("EFA001", "sg-a"): "error", ("EFA002", "sg-a"): "error"},
            id="cross references",
        ),
        pytest.param([A_IN], [B_TO], {("EFA002", "sg-a"): "error"}, id="one rule in each"),
        pytest.param([OUT], [B_IN], {("EFA002", "sg-b"): "error"}, id="the nearer one is told"),
    ],
)
def test_one_group_with_both_rules_is_enough(
    first: list[SecurityGroupRule], second: list[SecurityGroupRule], expected: dict[tuple[str, str], str]
) -> None:
    groups = (group("sg-a", *first), group("sg-b", *second))
    findings = [each for code in ("EFA001", "EFA002") for each in found(code, groups=groups)]
    assert {(each.code, each.subject): each.severity.value for each in findings} == expected


@pytest.mark.parametrize(
    ("hosts", "instance_type", "severity"),
    [(2, "ml.p4d.24xlarge", "error"), (2, "ml.m5.xlarge", "error"), (1, "ml.p4d.24xlarge", "info")],
)
def test_only_several_hosts_need_it_of_whatever_type(hosts: int, instance_type: str, severity: str) -> None:
    state = {"groups": (group(JOB_GROUP, IN, OUT),), "hosts": hosts, "instance_type": instance_type}
    assert severities("EFA002", **state) == {JOB_GROUP: severity}


def test_the_message_says_what_the_group_has_instead() -> None:
    (finding,) = found("EFA002", groups=(group(JOB_GROUP, IN, OUT),))
    assert "all traffic to 0.0.0.0/0" in finding.message
    assert "2 hosts" in finding.message


def test_a_group_that_does_not_exist_is_named_also_for_one_host() -> None:
    state = {"hosts": 1, "request": {"VpcConfig": {"Subnets": ["subnet-a"], "SecurityGroupIds": ["sg-gone"]}}}
    assert severities("EFA001", groups=(), **state) == {"sg-gone": "error"}


PEERS = st.fixed_dictionaries(
    {
        "ipv4": st.lists(st.sampled_from([ANY, "10.0.0.0/8", "0.0.0.0/1"]), max_size=2),
        "ipv6": st.lists(st.sampled_from(["::/0", "fd00::/8"]), max_size=1),
        "prefix_lists": st.lists(st.just("pl-1"), max_size=1),
        "groups": st.lists(st.sampled_from(["sg-a", "sg-b"]), max_size=2),
    }
)
RULES = st.builds(
    lambda direction, protocol, peers: rule(direction, protocol, None, **peers),
    st.sampled_from(["ingress", "egress"]),
    st.sampled_from(["-1", "tcp", "udp"]),
    PEERS,
)


@given(others=st.lists(RULES, max_size=4))
def test_no_rule_that_does_not_name_the_group_replaces_one_that_does(others: list[SecurityGroupRule]) -> None:
    assert {*severities("EFA001", groups=(group(JOB_GROUP, *others),)).values()} == {"error"}
    assert {*severities("EFA002", groups=(group(JOB_GROUP, *others),)).values()} == {"error"}


@given(others=st.lists(RULES, max_size=4))
def test_no_other_rule_spoils_a_good_group(others: list[SecurityGroupRule]) -> None:
    assert found("EFA001", groups=(group(JOB_GROUP, *others, IN, TO),)) == []
    assert found("EFA002", groups=(group(JOB_GROUP, *others, IN, TO),)) == []
