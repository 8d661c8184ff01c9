"""launcher/cluster/names.py against cfn-lint's copy of CloudFormation's registry, region by region."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

from cfnlint.helpers import REGIONS
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER, ResourceNotFoundError

from launcher.cluster.names import WITHOUT_BUDGETS, WITHOUT_FSX
from tools.facts.comparison import Comparison, compare, memberships


def comparisons() -> Iterator[Comparison]:
    """Where budgets and file systems cannot be made."""
    figures = (
        figure
        for type_, ours in (("AWS::Budgets::Budget", WITHOUT_BUDGETS), ("AWS::FSx::FileSystem", WITHOUT_FSX))
        for figure in memberships(f"regions without {type_}", ours, _without(type_))
    )
    yield compare(f"cfn-lint {version('cfn-lint')}", figures, independent=False)


def _without(type_: str) -> Iterator[str]:
    for region in REGIONS:
        try:
            PROVIDER_SCHEMA_MANAGER.get_resource_schema(region, type_)
        except ResourceNotFoundError:
            yield region
