"""How security groups are asked for: by their ids, or as many of the region as one small answer holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from launcher.account.questions.described import described
from launcher.account.security_groups import parse_security_group
from launcher.aws.errors import aws_errors
from launcher.cluster.security_groups import SecurityGroup

MOST_GROUPS_UNASKED = 200
"""One answer that is still small: EC2 would send up to 1000 groups at once, some megabytes of XML."""


def fetch_security_groups(ec2: Any, ids: Iterable[str]) -> tuple[SecurityGroup, ...]:
    """The groups with these ids, in their order; those that do not exist are left out.

    Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    wanted = list(dict.fromkeys(ids))
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        groups = described(ec2, "describe_security_groups", "SecurityGroups", "group-id", wanted)
        found = {each["GroupId"]: parse_security_group(each) for each in groups}
    return tuple(found[id_] for id_ in wanted if id_ in found)


def fetch_some_security_groups(ec2: Any) -> tuple[SecurityGroup, ...]:
    """Security groups of the region, all of them where there are no more than MOST_GROUPS_UNASKED.

    For groups whose ids another call will tell: in most accounts they are among these, and need no
    call after that one. Raises AwsRefusal where AWS refuses or cannot be reached.
    """
    with aws_errors("describe the security groups (ec2:DescribeSecurityGroups)"):
        answer = ec2.describe_security_groups(MaxResults=MOST_GROUPS_UNASKED)
    return tuple(map(parse_security_group, answer["SecurityGroups"]))
