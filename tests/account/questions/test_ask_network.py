"""Adding a rule to a security group: exactly the rule, once, and refusals by their permission."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.stub import Stubber

from launcher.account.questions.ask_network import authorize, fetch_security_groups
from launcher.cluster.traffic import SecurityGroupRule
from launcher.failure_modes.model import AwsRefusal


@pytest.fixture
def group(ec2: Any) -> str:
    """A group that lets nothing pass."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    made = str(ec2.create_security_group(GroupName="job", Description="job", VpcId=vpc)["GroupId"])
    ec2.revoke_security_group_egress(
        GroupId=made, IpPermissions=[{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}]
    )
    return made


@pytest.mark.parametrize("direction", ["ingress", "egress"])
@pytest.mark.parametrize(("protocol", "ports"), [("-1", (None, None)), ("tcp", (1018, 1023))])
def test_the_rule_is_added_as_it_was_given(
    ec2: Any, group: str, direction: Any, protocol: str, ports: tuple[Any, Any]
) -> None:
    rule = SecurityGroupRule(direction, protocol, *ports, groups=(group,))

    assert authorize(ec2, group, rule)

    (held,) = fetch_security_groups(ec2, [group])
    assert held.rules == (rule,)


def test_a_rule_that_is_there_stays_as_it_is(ec2: Any, group: str) -> None:
    rule = SecurityGroupRule("egress", "-1", None, None, groups=(group,))
    assert authorize(ec2, group, rule)
    before = fetch_security_groups(ec2, [group])

    assert not authorize(ec2, group, rule)
    assert fetch_security_groups(ec2, [group]) == before


@pytest.mark.parametrize(
    ("direction", "action"),
    [("ingress", "AuthorizeSecurityGroupIngress"), ("egress", "AuthorizeSecurityGroupEgress")],
)
def test_a_refusal_names_the_permission(ec2: Any, direction: Any, action: str) -> None:
    with Stubber(ec2) as stubbed, pytest.raises(AwsRefusal, match=rf"sg-1 \(ec2:{action}\)"):
        stubbed.add_client_error(f"authorize_security_group_{direction}", "UnauthorizedOperation", "not you")
        authorize(ec2, "sg-1", SecurityGroupRule(direction, "-1", None, None, groups=("sg-1",)))
