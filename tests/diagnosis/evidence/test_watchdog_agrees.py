"""The container's watchdog and the diagnosis judge the same dumps, each with code of its own, and agree."""

from __future__ import annotations

import pytest

from launcher.diagnosis.evidence.stuck import stuck
from slipway.watchdog.judgement import judge
from slipway.watchdog.recording import operations_in, read_dump
from slipway.watchdog.views import RankView
from tests.diagnosis.evidence.recorders import RECORDED, recorded


@pytest.mark.parametrize("case", ["never", "two", "size", "op", "subgroup", "teardown"])
def test_both_name_the_same_ranks(case: str) -> None:
    views = []
    for file in sorted((RECORDED / case).iterdir()):
        last, operations = operations_in(read_dump(file.read_bytes()), "/opt/ml/code", 0.0)
        rank = int(file.name.rpartition("_")[2])
        groups = {"0": (0, 1, 2, 3), "1": (1, 2)}
        mine = {name: ranks for name, ranks in groups.items() if rank in ranks}
        views.append(RankView(rank, "algo-1", "S", 5, False, True, True, mine, last, operations))
    verdict, found = judge(views), stuck(recorded(case))
    assert verdict is not None
    assert found is not None
    assert verdict.ranks == found.ranks
