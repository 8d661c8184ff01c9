"""The names and ids of availability zones."""

from __future__ import annotations

import pytest

from launcher.cluster.zones import zone_id_prefix


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
