"""What ranks measure of a network: which sizes, how often, and which hosts meet in which round."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from slipway.fabric.measure import (
    LEAST_BYTES,
    LEAST_TIMES,
    MIB,
    MOST_BYTES,
    MOST_ROUNDS,
    MOST_TIMES,
    bus_bandwidth,
    host_name,
    rounds_of_pairs,
    sizes_between,
    times_for,
)


@pytest.mark.parametrize("hosts", range(2, 17))
def test_every_pair_of_hosts_meets_once_and_no_host_is_in_two_pairs_at_a_time(hosts: int) -> None:
    rounds = list(rounds_of_pairs(hosts, MOST_ROUNDS))
    met = [pair for pairs in rounds for pair in pairs]
    assert sorted(met) == list(combinations(range(hosts), 2))
    assert len(rounds) == hosts - 1 + hosts % 2
    for pairs in rounds:
        busy = [host for pair in pairs for host in pair]
        assert len(busy) == len(set(busy))


def test_of_very_many_hosts_each_meets_some_others_and_none_twice() -> None:
    rounds = list(rounds_of_pairs(64, MOST_ROUNDS))
    met = [pair for pairs in rounds for pair in pairs]
    assert len(rounds) == MOST_ROUNDS
    assert len(set(met)) == len(met) == 32 * MOST_ROUNDS


def test_sizes_double_from_a_megabyte_to_four_gigabytes() -> None:
    sizes = list(sizes_between(LEAST_BYTES, MOST_BYTES))
    assert (sizes[0], sizes[-1], len(sizes)) == (MIB, 4096 * MIB, 13)
    assert {later / earlier for earlier, later in pairwise(sizes)} == {2}


def test_a_ring_of_full_links_has_the_bus_bandwidth_of_a_link_however_many_ranks_it_has() -> None:
    for ranks in (2, 3, 16, 128):
        through_each_link = 1e9 * 2 * (ranks - 1) / ranks
        assert bus_bandwidth(10**9, through_each_link / 50e9, ranks) == pytest.approx(50)


def test_short_all_reduces_are_repeated_often_and_long_ones_not() -> None:
    assert times_for(1e-6) == MOST_TIMES
    assert times_for(0.25) == 8
    assert times_for(100) == LEAST_TIMES


def test_a_host_is_called_as_in_its_job_else_by_its_number() -> None:
    assert host_name({"SM_CURRENT_HOST": "algo-7", "GROUP_RANK": "1"}) == "algo-7"
    assert host_name({"GROUP_RANK": "1"}) == "host-2"
