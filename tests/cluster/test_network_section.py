"""The room for planned hosts: what is refused, and that each remedy does."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from launcher.cluster.network_section import PlannedHosts, addresses_needed
from launcher.cluster.specification import ClusterSpec

P5, P4D = "ml.p5.48xlarge", "ml.p4d.24xlarge"
LETTERS = "abcdefghijklmnop"


def hosts(count: int, type_: str = P5) -> PlannedHosts:
    return PlannedHosts(instance_type=type_, count=count)


def spec(
    *, cidr: str, zones: int = 1, count: int = 4, type_: str = P5, vpc: Any = None, **more: Any
) -> ClusterSpec:
    return ClusterSpec.model_validate(
        {
            "name": "small",
            "region": "us-west-2",
            "availability_zones": [f"us-west-2{letter}" for letter in LETTERS[:zones]],
            "hosts": [{"instance_type": type_, "count": count}],
            "vpc": {"cidr": cidr, **(vpc or {})},
            **more,
        }
    )


def refusal(**cluster: Any) -> tuple[str, str, tuple[Any, ...], str]:
    """Message, remedy, place below the field, and code of what is wrong with a cluster."""
    with pytest.raises(ValidationError) as caught:
        spec(**cluster)
    (error,) = caught.value.errors()
    context = error["ctx"]
    return context["message"], context["remedy"], (*error["loc"], *context["below"]), context["mode"].code


def test_hosts_of_all_types_and_lustre_servers_count_together() -> None:
    assert addresses_needed([hosts(1, "ml.m5.xlarge")], 0) == 2 + 5 + 32
    assert addresses_needed([hosts(4), hosts(30, P4D)], 0) == 4 * 32 + 30 * 5 + 37
    assert addresses_needed([hosts(4)], 240_000) == 4 * 32 + 200 + 37


@pytest.mark.parametrize(
    ("cluster", "told", "remedy"),
    [
        (
            {"cidr": "10.0.0.0/24"},
            "10.0.0.0/24 has 256 addresses, but 4 hosts of ml.p5.48xlarge need 165, and the slot of zone 1, "
            "10.0.0.0/26, has 64",
            "Use /22 or larger.",
        ),
        (
            {"cidr": "10.0.0.0/19", "count": 64},
            "the slot of zone 1, 10.0.0.0/21, has 2048",
            "Use /18 or larger, or `max_hosts: 122`.",
        ),
        (
            {"cidr": "10.0.0.0/16", "zones": 5, "count": 128},
            "the slot of zone 5, 10.0.192.0/20, has 4096",
            "Use `max_hosts: 250`.",
        ),
        (
            {"cidr": "10.0.0.0/20", "zones": 3, "count": 1, "max_hosts": 1000},
            "slots of 32768 for 3 zone(s) need 98304",
            "Use `max_hosts: 26`.",
        ),
        (
            {"cidr": "10.0.0.0/16", "count": 100, "max_hosts": 10},
            "the slot of zone 1, 10.0.0.0/23, has 512",
            "Use `max_hosts: 122`.",
        ),
        (
            {"cidr": "10.0.0.0/20", "count": 100, "max_hosts": 10},
            "100 hosts of ml.p5.48xlarge need 3237",
            "Use /19 or larger and `max_hosts: 122`.",
        ),
        (
            {"cidr": "10.0.0.0/16", "count": 10_000},
            "10000 hosts of ml.p5.48xlarge need 320037",
            "No VPC is that large (/16 is the largest): plan fewer hosts or zones.",
        ),
        (
            {"cidr": "10.0.0.0/26", "count": 1, "type_": "ml.m5.xlarge", "zones": 5},
            "10.0.0.0/26 has 64 addresses, but the slot of zone 3 would be smaller than a subnet can be",
            "Use /22 or larger.",
        ),
    ],
)
def test_lack_of_addresses_is_told_with_what_would_do(
    cluster: dict[str, Any], told: str, remedy: str
) -> None:
    message, offered, place, code = refusal(**cluster)

    assert (code, place, offered) == ("EFA004", ("vpc", "cidr"), remedy)
    assert told in message


@settings(max_examples=150, deadline=None)
@given(
    prefix=st.integers(16, 26),
    zones=st.integers(1, 8),
    count=st.integers(1, 300),
    nat=st.booleans(),
    max_hosts=st.none() | st.integers(1, 500),
)
def test_every_remedy_does(prefix: int, zones: int, count: int, nat: bool, max_hosts: int | None) -> None:
    asked: dict[str, Any] = {"zones": zones, "count": count, "vpc": {"nat": nat}}
    try:
        spec(cidr=f"10.0.0.0/{prefix}", max_hosts=max_hosts, **asked)
    except ValidationError as error:
        remedy = error.errors()[0]["ctx"]["remedy"]
        for one in re.findall(
            r"/[0-9]+ or larger and `max_hosts: [0-9]+`|/[0-9]+ or larger|`max_hosts: [0-9]+`", remedy
        ):
            larger = re.search(r"/([0-9]+) or", one)
            hosts = re.search(r"max_hosts: ([0-9]+)", one)
            spec(
                cidr=f"10.0.0.0/{larger[1] if larger else prefix}",
                max_hosts=int(hosts[1]) if hosts else max_hosts,
                **asked,
            )
    else:
        assert count * 32 < 2 ** (32 - prefix)


def test_hosts_are_checked_against_a_range_by_hand() -> None:
    message, remedy, place, code = refusal(cidr="10.0.0.0/20", vpc={"subnets": [{"cidr": "10.0.0.0/26"}]})

    assert (code, place) == ("EFA004", ("vpc", "subnets", 0, "cidr"))
    assert message.startswith("10.0.0.0/26 has 64 addresses, but 4 hosts of ml.p5.48xlarge need 165")
    assert remedy == "Use /24 or larger, or fewer hosts."


@pytest.mark.parametrize(
    ("vpc", "zones", "place", "told"),
    [
        ({"subnets": [{"cidr": "10.1.0.0/24"}]}, 1, (0, "cidr"), "10.1.0.0/24 does not lie in 10.0.0.0/20"),
        (
            {"subnets": [{"cidr": "10.0.4.0/24"}]},
            2,
            (0, "cidr"),
            "overlaps with 10.0.4.0/22 (zone 2, training)",
        ),
        ({"subnets": [{"cidr": "10.0.0.0/24"}] * 2}, 1, (1,), "there are 2 subnets for 1 zone(s)"),
        ({"subnets": [{"cidr": "10.0.0.0/29"}]}, 1, (0, "cidr"), "between /16 and /28, not /29"),
        (
            {"nat": False, "subnets": [{"cidr": "10.0.0.0/24", "nat_cidr": "10.0.1.0/28"}]},
            1,
            (0, "nat_cidr"),
            "no NAT gateway is created",
        ),
    ],
)
def test_range_by_hand_that_cannot_be_is_refused_at_its_place(
    vpc: dict[str, Any], zones: int, place: tuple[Any, ...], told: str
) -> None:
    message, _, path, code = refusal(cidr="10.0.0.0/20", vpc=vpc, zones=zones)

    assert (code, path) == ("SPEC003", ("vpc", "subnets", *place))
    assert told in message


def test_ranges_by_hand_leave_the_other_zones_their_slots() -> None:
    pinned = spec(cidr="10.0.0.0/20", zones=2, vpc={"subnets": [{"cidr": "10.0.0.0/24"}]})

    assert [each.training for each in pinned.addresses] == [
        IPv4Network("10.0.0.0/24"),
        IPv4Network("10.0.4.0/22"),
    ]
