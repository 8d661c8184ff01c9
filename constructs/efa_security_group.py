"""The security group of the training hosts, as the package for other apps has it."""

from slipway_cdk.efa_security_group import PREVENTS, EfaSecurityGroup

__all__ = ["PREVENTS", "EfaSecurityGroup"]
