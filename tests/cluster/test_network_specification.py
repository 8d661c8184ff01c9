"""The sizes of subnets, and the names and ids of zones."""

from __future__ import annotations

import pytest

from launcher.cluster.network_specification import (
    PlannedHosts,
    subnet_prefix_length,
    zone_id_prefix,
)
from launcher.cluster.training_network import addresses_per_host


@pytest.mark.parametrize(
    ("instance_type", "count", "prefix_length"),
    [
        ("ml.m5.xlarge", 1, 26),
        ("ml.p4d.24xlarge", 16, 25),
        ("ml.p5.48xlarge", 4, 24),
        ("ml.p5.48xlarge", 64, 20),
    ],
)
def test_subnet_is_as_large_as_the_hosts_need(instance_type: str, count: int, prefix_length: int) -> None:
    hosts = PlannedHosts(instance_type=instance_type, count=count)

    assert subnet_prefix_length([hosts]) == prefix_length
    assert 2 ** (32 - prefix_length) - 5 >= count * addresses_per_host(instance_type)


def test_hosts_of_all_types_count_together() -> None:
    hosts = [
        PlannedHosts(instance_type="ml.p5.48xlarge", count=4),
        PlannedHosts(instance_type="ml.p4d.24xlarge", count=30),
    ]

    assert subnet_prefix_length(hosts[:1]) == 24
    assert subnet_prefix_length(hosts) == 23


def test_servers_of_a_large_file_system_have_addresses_too() -> None:
    hosts = [PlannedHosts(instance_type="ml.p5.48xlarge", count=4)]

    assert 2 ** (32 - subnet_prefix_length(hosts, 240_000)) - 5 >= 4 * 32 + 200


@pytest.mark.parametrize(
    ("region", "prefix"),
    [
        ("us-west-2", "usw2"),
        ("us-east-1", "use1"),
        ("eu-central-1", "euc1"),
        ("ap-southeast-2", "apse2"),
        ("ap-northeast-1", "apne1"),
        ("us-gov-west-1", "usgw1"),
    ],
)
def test_ids_of_zones_begin_with_their_region(region: str, prefix: str) -> None:
    assert zone_id_prefix(region) == prefix
