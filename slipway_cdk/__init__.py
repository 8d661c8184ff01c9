"""Constructs and a rule pack for anybody's CDK app: what training needs of a network and of Lustre.

`EfaSecurityGroup` and `TrainingFileSystem` are what training hosts stand in and mount; `SlipwayChecks` finds
in any app, at synthesis, what would make their jobs hang. They take plain arguments and types of the CDK;
`pip install 'slipway-launch[cdk]'` brings what they need. The modules below are the package's own and may
change.
"""

from slipway_cdk.efa_security_group import EfaSecurityGroup
from slipway_cdk.slipway_checks import SlipwayChecks
from slipway_cdk.training_file_system import S3Link, TrainingFileSystem

__all__ = ["EfaSecurityGroup", "S3Link", "SlipwayChecks", "TrainingFileSystem"]
