"""A storage volume beside the disks of the instance type: SPEC003."""

from __future__ import annotations

import pytest

P4D, M5 = "ml.p4d.24xlarge", "ml.m5.xlarge"


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        pytest.param({"instance_type": P4D, "volume_size_gb": 500}, "info", id="beside disks of its own"),
        pytest.param({"instance_type": P4D}, None, id="the default is nobody's wish"),
        pytest.param({"instance_type": M5, "volume_size_gb": 500}, None, id="the only disk there is"),
    ],
)
def test_a_volume_without_effect_is_an_information(severity_of, resources: dict, found: str | None) -> None:
    assert severity_of("SPEC003", resources=resources) == found
