"""A fact that could not be had."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Unverified:
    """A fact that could not be had.

    `what` names it for a person (`the subnets`), `permission` the IAM action that it needs
    (`ec2:DescribeSubnets`), `reason` what came instead: AWS's refusal, or no answer in time.
    """

    what: str
    permission: str
    reason: str
