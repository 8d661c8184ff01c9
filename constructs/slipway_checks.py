"""The rule pack, as the package for other apps has it."""

from slipway_cdk.slipway_checks import PREVENTS, RULES, SlipwayChecks, findings

__all__ = ["PREVENTS", "RULES", "SlipwayChecks", "findings"]
