"""What a deployed network keeps its addresses with."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from launcher.cluster.specification import ClusterSpec
from launcher.provisioning.addresses import ranges_to_keep
from launcher.provisioning.comparison import compare
from tests.stacks.synthesis import dev_spec, synthesize

ZONES = {"availability_zones": ["us-west-2a", "us-west-2b"]}
NAMED = [
    {"cidr": "10.64.0.0/26", "nat_cidr": "10.64.0.128/28"},
    {"cidr": "10.64.0.64/26", "nat_cidr": "10.64.0.144/28"},
]
BY_HAND = {"cidr": "10.64.0.0/20", "subnets": NAMED}


def told(deployed: ClusterSpec, wanted: ClusterSpec) -> str | None:
    template, new = (synthesize(each).template("network") for each in (deployed, wanted))
    (change,) = compare({"network": template}, {"network": new})
    return ranges_to_keep(template, change)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(
    ("nat", "kept"), [(True, NAMED), (False, [{"cidr": each["cidr"]} for each in NAMED])]
)
def test_the_ranges_that_would_move_are_told_as_the_file_takes_them(nat: bool, kept: Any) -> None:
    deployed = dev_spec(**ZONES, vpc={**BY_HAND, "nat": nat, "subnets": kept})
    wanted = dev_spec(**ZONES, vpc={"cidr": "10.64.0.0/20", "nat": nat})

    line = told(deployed, wanted)

    assert line is not None and yaml.safe_load(line) == {"subnets": kept}
    pinned = dev_spec(**ZONES, vpc={"cidr": "10.64.0.0/20", "nat": nat, **yaml.safe_load(line)})
    assert told(deployed, pinned) is None


def test_nothing_is_told_where_no_subnet_moves() -> None:
    assert told(dev_spec(), dev_spec(**ZONES)) is None
