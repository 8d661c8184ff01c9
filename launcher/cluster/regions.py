"""What a region is called, and what CloudFormation cannot make in some of them."""

from __future__ import annotations

from datetime import date
from typing import Final

from launcher.facts.provenance import Provenance

REGION: Final = r"^[a-z]{2,4}(-[a-z]+)+-[0-9]$"
"""The form of a region's name: us-west-2, us-gov-west-1, eusc-de-east-1."""

PROVENANCE: Final = Provenance(
    date(2026, 11, 22),
    shelf_life_days=180,
    source="CloudFormation's registry, as cfn-lint keeps it",
    packages={"cfn-lint": "1.58.0"},
)

WITHOUT_BUDGETS: Final = frozenset(
    {
        *("af-south-1", "ap-east-1", "ap-east-2", "ap-northeast-3", "ap-south-2", "ap-southeast-3"),
        *("ap-southeast-4", "ap-southeast-5", "ap-southeast-6", "ap-southeast-7", "ca-west-1"),
        *("eu-central-2", "eu-north-1", "eu-south-1", "eu-south-2", "il-central-1", "me-central-1"),
        *("mx-central-1", "us-gov-east-1", "us-gov-west-1"),
    }
)
"""Regions where CloudFormation has no AWS::Budgets::Budget (its registry, as cfn-lint 1.58 keeps it)."""

WITHOUT_FSX: Final = frozenset({"ap-southeast-6"})
"""Regions where CloudFormation has no AWS::FSx::FileSystem (the same source)."""
