"""Slots: where subnets lie, and that growth moves none of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.cluster.address_slots import (
    MOST_ADDRESSES_OF_A_HOST,
    MOST_HOSTS,
    AddressPlan,
    Misplaced,
    NoRoom,
    ZoneAddresses,
    most_hosts_of,
    slot_for,
)
from launcher.cluster.instances import training_instance_types
from launcher.cluster.traffic import RESERVED_ADDRESSES, addresses_per_host

NETWORKS = st.builds(
    lambda prefix, number: IPv4Network((((10 << 24) + (number << (32 - prefix))) % 2**32, prefix)),
    st.integers(16, 28),
    st.integers(0, 200),
)
PLANS = st.builds(
    AddressPlan,
    NETWORKS,
    st.integers(1, 16),
    nat=st.booleans(),
    max_hosts=st.none() | st.integers(1, MOST_HOSTS),
)


def network(cidr: str) -> IPv4Network:
    return IPv4Network(cidr)


def by_hand(training: str, nat: str | None = None) -> ZoneAddresses:
    return ZoneAddresses(network(training), network(nat) if nat else None)


def trainings(plan: AddressPlan) -> list[str]:
    return [str(each.training) for each in plan.by_zone()]


def test_zones_share_the_network_in_quarters_eighths_and_sixteenths() -> None:
    plan = AddressPlan(network("10.0.0.0/16"), 6, nat=True)

    assert trainings(plan) == [
        "10.0.0.0/18",
        "10.0.64.0/18",
        "10.0.128.0/19",
        "10.0.160.0/19",
        "10.0.192.0/20",
        "10.0.208.0/20",
    ]


def test_nat_subnets_lie_from_the_high_end() -> None:
    plan = AddressPlan(network("10.0.0.0/16"), 2, nat=True)

    assert [str(each.nat) for each in plan.by_zone()] == ["10.0.255.240/28", "10.0.255.224/28"]
    assert [each.nat for each in replace(plan, nat=False).by_zone()] == [None, None]


def test_slots_of_a_declared_maximum_are_equal() -> None:
    plan = AddressPlan(network("10.0.0.0/16"), 3, nat=True, max_hosts=100)

    assert trainings(plan) == ["10.0.0.0/20", "10.0.16.0/20", "10.0.32.0/20"]


def test_page_of_the_cluster_file_has_the_slots_of_a_large_network() -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "cluster-file.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([1-4]) \| (\S+) \| (\d+) \| (\d+) \| (\S+) \|$", text, re.MULTILINE)
    zones = AddressPlan(network("10.0.0.0/16"), 4, nat=True).by_zone()

    assert rows == [
        (str(number), str(each.training), str(size), str((size - 5 - 32) // 32), str(each.nat))
        for number, each in enumerate(zones, 1)
        for size in [each.training.num_addresses]
    ]
    assert slot_for(100) == 4096
    assert len(AddressPlan(network("10.0.0.0/16"), 15, nat=True, max_hosts=100).by_zone()) == 15


@given(plan=PLANS)
def test_slots_lie_in_the_network_and_apart(plan: AddressPlan) -> None:
    ranges = ranges_of(plan)

    assert all(each.subnet_of(plan.network) and 16 <= each.prefixlen <= 28 for each in ranges)
    assert not any(one.overlaps(other) for one, other in combinations(ranges, 2))


@given(plan=PLANS, more=st.integers(1, 15))
def test_zone_that_is_appended_moves_no_subnet(plan: AddressPlan, more: int) -> None:
    larger = replace(plan, zones=plan.zones + more)

    if before := ranges_or_none(plan):
        after = ranges_or_none(larger)
        assert after is None or after[: plan.zones] == before


@settings(max_examples=300)
@given(hosts=st.integers(1, MOST_HOSTS))
def test_slot_holds_the_declared_hosts_of_any_type_with_room_to_spare(hosts: int) -> None:
    slot = slot_for(hosts)

    assert slot >= hosts * 32 + RESERVED_ADDRESSES + 32 + 128
    assert most_hosts_of(slot // 2) is None or slot_for(most_hosts_of(slot // 2) or 0) == slot // 2
    assert hosts <= (most_hosts_of(slot) or 0)
    assert slot_for(most_hosts_of(slot) or 0) == slot


def test_slot_too_small_for_any_host_has_no_maximum() -> None:
    assert [most_hosts_of(slot) for slot in (128, 256, 512)] == [None, 2, 10]


def test_largest_maximum_is_that_of_the_largest_network() -> None:
    assert most_hosts_of(2**16) == MOST_HOSTS


def test_no_instance_type_takes_more_addresses_than_a_slot_has_for_a_host() -> None:
    taken = {type_: addresses_per_host(type_) for type_ in training_instance_types()}

    assert max(taken.values()) == MOST_ADDRESSES_OF_A_HOST


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (AddressPlan(network("10.0.0.0/26"), 3, nat=False), "zone 3 would be smaller than a subnet can be"),
        (AddressPlan(network("10.0.0.0/16"), 3, nat=False, max_hosts=1000), "slots of 32768 for 3 zone(s)"),
        (
            AddressPlan(network("10.0.0.0/16"), 2, nat=True, max_hosts=1000),
            r"10.0.128.0/17 (zone 2, training) and 10.0.255.240/28 (zone 1, NAT) would overlap",
        ),
        (
            AddressPlan(network("10.0.0.0/28"), 2, nat=True, given=(by_hand("10.0.0.0/28"),) * 2),
            "NAT subnets",
        ),
    ],
)
def test_slots_that_do_not_fit_are_told(plan: AddressPlan, told: str) -> None:
    with pytest.raises(NoRoom) as caught:
        plan.by_zone()
    assert told in str(caught.value)


def test_ranges_by_hand_stand_for_the_slots_of_their_zones() -> None:
    given_ = (by_hand("10.65.0.0/25", "10.65.1.0/28"), by_hand("10.65.0.128/25"))
    plan = AddressPlan(network("10.65.0.0/20"), 3, nat=True, given=given_)

    assert trainings(plan) == ["10.65.0.0/25", "10.65.0.128/25", "10.65.8.0/23"]
    assert [str(each.nat) for each in plan.by_zone()] == [
        "10.65.1.0/28",
        "10.65.15.224/28",
        "10.65.15.208/28",
    ]


@pytest.mark.parametrize(
    ("given_", "path", "told"),
    [
        ([by_hand("10.1.0.0/24")], (0, "cidr"), "10.1.0.0/24 does not lie in 10.0.0.0/20"),
        ([by_hand("10.0.0.0/24", "10.1.0.0/28")], (0, "nat_cidr"), "10.1.0.0/28 does not lie in"),
        ([by_hand("10.0.0.0/16")], (0, "cidr"), "10.0.0.0/16 does not lie in"),
        (
            [by_hand("10.0.0.0/24"), by_hand("10.0.0.128/25")],
            (1, "cidr"),
            "overlaps with 10.0.0.0/24 (zone 1",
        ),
        (
            [by_hand("10.0.0.0/24", "10.0.0.0/28")],
            (0, "nat_cidr"),
            "overlaps with 10.0.0.0/24 (zone 1, training)",
        ),
        ([by_hand("10.0.4.0/24")], (0, "cidr"), "overlaps with 10.0.4.0/22 (zone 2, training)"),
        ([by_hand("10.0.15.0/24")], (0, "cidr"), "overlaps with 10.0.15.240/28 (zone 1, NAT)"),
    ],
)
def test_range_by_hand_in_the_wrong_place_is_told(
    given_: Sequence[ZoneAddresses], path: tuple[int, str], told: str
) -> None:
    plan = AddressPlan(network("10.0.0.0/20"), 2, nat=True, given=tuple(given_))

    with pytest.raises(Misplaced) as caught:
        plan.by_zone()
    assert (caught.value.path, told in str(caught.value)) == (path, True)


def ranges_of(plan: AddressPlan) -> list[IPv4Network]:
    found = ranges_or_none(plan) or []
    return [each for zone in found for each in (zone.training, zone.nat) if each is not None]


def ranges_or_none(plan: AddressPlan) -> list[ZoneAddresses] | None:
    try:
        return plan.by_zone()
    except NoRoom:
        return None
