"""Placement where there are no UltraServers."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("instance_type", "subjects"),
    [
        ("ml.p6e-gb200.36xlarge", []),
        ("ml.trn2u.48xlarge", []),
        ("ml.p6-b200.48xlarge", ["resources.placement"]),
        ("ml.trn2.48xlarge", ["resources.placement"]),
    ],
)
def test_only_hosts_of_ultra_servers_are_placed(judge, instance_type: str, subjects: list[str]) -> None:
    resources = {"instance_type": instance_type, "instance_count": 2, "placement": {"share": True}}
    assert [found.subject for found in judge("SPEC003", resources=resources)] == subjects
    del resources["placement"]
    assert judge("SPEC003", resources=resources) == []
