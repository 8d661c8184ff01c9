"""Adding what a security group lacks: the one thing that the launcher ever changes in a network."""

from __future__ import annotations

from typing import Any

from launcher.account.security_groups import Direction, Permission
from launcher.aws.errors import aws_errors

_ACTIONS: dict[Direction, tuple[str, str]] = {
    "ingress": ("authorize_security_group_ingress", "ec2:AuthorizeSecurityGroupIngress"),
    "egress": ("authorize_security_group_egress", "ec2:AuthorizeSecurityGroupEgress"),
}
_THERE_ALREADY = "InvalidPermission.Duplicate"


def authorize(ec2: Any, group_id: str, permission: Permission) -> bool:
    """Add a permission whose peers are groups; False where the group has it already.

    Raises AwsRefusal where AWS refuses or cannot be reached; the message names the IAM action.
    """
    method, action = _ACTIONS[permission.direction]
    with aws_errors(f"add a rule to the security group {group_id} ({action})"):
        try:
            getattr(ec2, method)(GroupId=group_id, IpPermissions=[_described(permission)])
        except ec2.exceptions.ClientError as error:
            if error.response["Error"]["Code"] == _THERE_ALREADY:
                return False
            raise
    return True


def _described(permission: Permission) -> dict[str, Any]:
    ports = {"FromPort": permission.first_port, "ToPort": permission.last_port}
    return {
        "IpProtocol": permission.protocol,
        **{name: port for name, port in ports.items() if port is not None},
        "UserIdGroupPairs": [{"GroupId": peer, "Description": "launch check"} for peer in permission.groups],
    }
