"""Adding what a security group lacks: the one thing that the launcher ever changes in a network."""

from __future__ import annotations

from typing import Any

from launcher.aws.errors import aws_errors
from launcher.cluster.security_groups import Direction, SecurityGroupRule

_ACTIONS: dict[Direction, tuple[str, str]] = {
    "ingress": ("authorize_security_group_ingress", "ec2:AuthorizeSecurityGroupIngress"),
    "egress": ("authorize_security_group_egress", "ec2:AuthorizeSecurityGroupEgress"),
}
_THERE_ALREADY = "InvalidPermission.Duplicate"


def authorize(ec2: Any, group_id: str, rule: SecurityGroupRule) -> bool:
    """Add a rule whose peers are groups; False where the group has it already.

    Raises AwsRefusal where AWS refuses or cannot be reached; the message names the IAM action.
    """
    method, action = _ACTIONS[rule.direction]
    with aws_errors(f"add a rule to the security group {group_id} ({action})"):
        try:
            getattr(ec2, method)(GroupId=group_id, IpPermissions=[_described(rule)])
        except ec2.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == _THERE_ALREADY:
                return False
            raise
    return True


def _described(rule: SecurityGroupRule) -> dict[str, Any]:
    ports = {"FromPort": rule.first_port, "ToPort": rule.last_port}
    return {
        "IpProtocol": rule.protocol,
        **{name: port for name, port in ports.items() if port is not None},
        "UserIdGroupPairs": [{"GroupId": peer, "Description": "launch check"} for peer in rule.groups],
    }
