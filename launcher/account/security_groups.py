"""The security groups of the account, with every rule that EC2 describes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from launcher.aws.errors import aws_errors
from launcher.cluster.security_groups import Direction, SecurityGroup, SecurityGroupRule

MOST_GROUPS_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 groups at once, some megabytes of XML."""

_NAMES = {"6": "tcp", "17": "udp"}


def fetch_security_groups(ec2: Any, ids: Iterable[str]) -> tuple[SecurityGroup, ...]:
    """The groups with these ids, in their order; those that do not exist are left out.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return ()
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        pages = ec2.get_paginator("describe_security_groups").paginate(
            # A filter passes over what is missing, where `GroupIds` refuses the whole call.
            Filters=[{"Name": "group-id", "Values": wanted}]
        )
        found = {
            each["GroupId"]: parse_security_group(each) for page in pages for each in page["SecurityGroups"]
        }
    return tuple(found[id_] for id_ in wanted if id_ in found)


def fetch_some_security_groups(ec2: Any) -> tuple[SecurityGroup, ...]:
    """Security groups of the region, all of them where there are no more than MOST_GROUPS_UNASKED.

    For groups whose ids another call will tell: in most accounts they are among these, and need no
    call after that one. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        answer = ec2.describe_security_groups(MaxResults=MOST_GROUPS_UNASKED)
    return tuple(map(parse_security_group, answer["SecurityGroups"]))


def parse_security_group(described: Mapping[str, Any]) -> SecurityGroup:
    """A group from one element of DescribeSecurityGroups."""
    return SecurityGroup(
        id=described["GroupId"],
        vpc_id=described.get("VpcId"),
        rules=(
            *(_rule("ingress", each) for each in described.get("IpPermissions", ())),
            *(_rule("egress", each) for each in described.get("IpPermissionsEgress", ())),
        ),
    )


def _rule(direction: Direction, described: Mapping[str, Any]) -> SecurityGroupRule:
    protocol = str(described["IpProtocol"])
    return SecurityGroupRule(
        direction=direction,
        protocol=_NAMES.get(protocol, protocol),
        first_port=_port(described.get("FromPort")),
        last_port=_port(described.get("ToPort")),
        ipv4=_each(described, "IpRanges", "CidrIp"),
        ipv6=_each(described, "Ipv6Ranges", "CidrIpv6"),
        prefix_lists=_each(described, "PrefixListIds", "PrefixListId"),
        groups=_each(described, "UserIdGroupPairs", "GroupId"),
    )


def _each(described: Mapping[str, Any], list_: str, key: str) -> tuple[str, ...]:
    return tuple(each[key] for each in described.get(list_, ()) if key in each)


def _port(described: Any) -> int | None:
    return None if described is None or int(described) == -1 else int(described)
