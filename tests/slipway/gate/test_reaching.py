"""Who reaches whom, judged by what all hosts told."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.gate.findings import HostFinding
from slipway.gate.reaching import first_host_silent, judge_pairs, missing_hosts

HOSTS = ("algo-1", "algo-2", "algo-3", "algo-4")
OK = {"ended": "ok", "offset": 0.0}
REFUSED = {"ended": "connection", "reason": "Connection refused", "address": "10.0.0.3:4711"}


def matrix(**changed: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All is well but for the ways `a_b`, by the hosts' numbers."""
    return {a: {b: changed.get(f"way_{a[-1]}_{b[-1]}", OK) for b in HOSTS if b != a} for a in HOSTS}


def worst(told: dict[str, dict[str, Any]]) -> HostFinding:
    (finding,) = judge_pairs(told, HOSTS).findings
    return finding


def test_hosts_that_reach_each_other_give_no_finding() -> None:
    assert not judge_pairs(matrix(), HOSTS).findings


def test_one_direction_is_named_as_such_with_the_pair() -> None:
    finding = worst(matrix(way_2_3=REFUSED))
    assert (finding.code, finding.host, finding.ends) == ("NCCL007", "algo-2", True)
    assert "algo-2 cannot connect to algo-3 at 10.0.0.3:4711 (Connection refused)" in finding.text
    assert "while algo-3 does reach algo-2" in finding.text


def test_a_pair_that_is_cut_is_named_with_both_directions() -> None:
    finding = worst(matrix(way_2_3=REFUSED, way_3_2=REFUSED))
    assert "nor the other way round" in finding.text
    assert "more of the ways" not in finding.text


def test_a_host_that_nobody_reaches_is_the_one_at_fault() -> None:
    finding = worst(matrix(way_1_3=REFUSED, way_2_3=REFUSED, way_4_3=REFUSED))
    assert finding.host == "algo-3"
    assert "2 more of the ways between hosts" in finding.text


def test_a_name_that_does_not_resolve_is_told_from_a_connection_that_fails() -> None:
    way = {"ended": "name", "reason": "Name or service not known", "address": "algo-3"}
    finding = worst(matrix(way_1_3=way))
    assert "algo-1 cannot resolve the name algo-3 (Name or service not known)" in finding.text
    assert "DNS" in finding.text


def test_another_host_under_the_name_is_named() -> None:
    finding = worst(matrix(way_1_3={"ended": "stranger", "reason": "algo-9", "address": "10.0.0.3:1"}))
    assert "algo-1 reached algo-9 where algo-3 should be, at 10.0.0.3:1" in finding.text


def test_a_host_that_did_not_tell_is_not_known_to_reach_the_others() -> None:
    told = matrix()
    del told["algo-4"]
    assert judge_pairs(told, HOSTS).unknown == ("the ways from algo-4 (it did not tell them in time)",)


@pytest.mark.parametrize(("offset", "found"), [(4.9, False), (-4.9, False), (5.1, True), (-7200.0, True)])
def test_clocks_more_than_five_seconds_apart_are_told_and_end_nothing(offset: float, found: bool) -> None:
    told = matrix(
        way_1_3={"ended": "ok", "offset": offset},
        way_2_3={"ended": "ok", "offset": offset},
        way_4_3={"ended": "ok", "offset": offset},
        way_3_1={"ended": "ok", "offset": -offset},
        way_3_2={"ended": "ok", "offset": -offset},
    )
    findings = judge_pairs(told, HOSTS).findings
    assert [(each.host, each.ends) for each in findings] == ([("algo-3", False)] if found else [])
    if found:
        assert f"{abs(offset):.1f} s" in findings[0].text


def test_who_is_missing_is_called_by_name() -> None:
    first, second = missing_hosts(["algo-2", "algo-4"], HOSTS, 60.0, 7778)
    assert first.sentence.startswith("NCCL008 algo-2: did not answer the roll-call of 4 hosts within 60 s")
    assert second.host == "algo-4"
    assert second.text.endswith("look at its log, and whether it reaches port 7778 of algo-1")


def test_a_first_host_that_does_not_answer_is_called_by_name() -> None:
    finding = first_host_silent("algo-1", "10.0.0.1:7778 did not answer within 80 s (timed out)")
    assert finding.sentence.startswith("NCCL008 algo-1: the first host")
    assert "10.0.0.1:7778 did not answer within 80 s (timed out)" in finding.text
