"""Which file systems on Intelligent-Tiering there are, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from launcher.cluster.storage_specification import LustreSpec

TIERED: dict[str, Any] = {
    "deployment": "PERSISTENT_2",
    "intelligent_tiering": {"throughput_mbps": 8000, "read_cache": "none"},
    "metadata": {"iops": 6000},
}


def tiering(**changes: Any) -> dict[str, Any]:
    return {**TIERED, "intelligent_tiering": {**TIERED["intelligent_tiering"], **changes}}


@pytest.mark.parametrize(
    "lustre",
    [
        TIERED,
        {**TIERED, "metadata": {"iops": 12000}},
        {**TIERED, "backup": {"retention_days": 7}},
        {**TIERED, "efa": True},
        tiering(read_cache="proportional"),
        tiering(read_cache={"gib": 64}),
        tiering(read_cache={"gib": 262144}),
        tiering(throughput_mbps=2_000_000),
    ],
)
def test_what_there_is_passes_and_stays_the_same_when_read_again(lustre: dict[str, Any]) -> None:
    spec = LustreSpec.model_validate(lustre)

    assert spec.storage_type == "INTELLIGENT_TIERING"
    assert LustreSpec.model_validate(spec.model_dump()) == spec


@pytest.mark.parametrize(
    ("lustre", "at", "told"),
    [
        (
            {**TIERED, "deployment": "SCRATCH_2"},
            "intelligent_tiering",
            "SCRATCH_2 has no Intelligent-Tiering",
        ),
        ({**TIERED, "capacity_gib": 1200}, "capacity_gib", "has no capacity"),
        ({**TIERED, "throughput": 125}, "throughput", "has `throughput_mbps` instead"),
        ({**TIERED, "metadata": None}, "metadata", "needs metadata of 6000 or 12000 IOPS, and none"),
        ({**TIERED, "metadata": "automatic"}, "metadata", "and none are given"),
        ({**TIERED, "metadata": {"iops": 3000}}, "metadata", "and 3000 are given"),
        (
            {**TIERED, "associations": [{"path": "/a", "s3_uri": "s3://corpus"}]},
            "associations",
            "cannot be linked to S3",
        ),
        (tiering(throughput_mbps=4001), "throughput_mbps", "use a multiple of 4000"),
        (tiering(throughput_mbps=0), "throughput_mbps", "of 0 MB/s"),
        (tiering(throughput_mbps=2_004_000), "throughput_mbps", "up to 2000000"),
        (tiering(read_cache={"gib": 63}), "read_cache", "no read cache of 63 GiB; use 64 to 262144"),
        (tiering(read_cache={"gib": 262145}), "read_cache", "no read cache of 262145 GiB"),
        (tiering(read_cache="big"), "mode", "'none', 'proportional' or 'sized'"),
        (tiering(read_cache={}), "gib", "only a cache of a given size has `gib`"),
        (tiering(read_cache={"mode": "none", "gib": 64}), "gib", "only a cache of a given size has `gib`"),
    ],
)
def test_what_there_is_not_is_refused(lustre: dict[str, Any], at: str, told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        LustreSpec.model_validate(lustre)

    found = [each for each in refused.value.errors() if each["loc"][-1] == at]
    assert found and told in found[0]["msg"]
