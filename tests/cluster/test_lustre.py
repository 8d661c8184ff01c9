"""Which Lustre file systems exist."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from launcher.cluster.lustre import (
    Deployment,
    capacity_problem,
    efa_problem,
    metadata_problem,
    storage_type,
    throughput_problem,
)
from launcher.cluster.storage_section import LustreSpec


@pytest.mark.parametrize(
    ("deployment", "throughput", "capacity", "exists"),
    [
        ("SCRATCH_1", None, 2400, True),
        ("SCRATCH_1", None, 3600, True),
        ("SCRATCH_1", None, 4800, False),
        ("SCRATCH_2", None, 1200, True),
        ("SCRATCH_2", None, 3600, False),
        ("SCRATCH_2", None, 0, False),
        ("SCRATCH_2", None, -2400, False),
        ("PERSISTENT_1", 50, 1200, True),
        ("PERSISTENT_1", 12, 6000, True),
        ("PERSISTENT_1", 12, 1800, False),
        ("PERSISTENT_1", 40, 1800, True),
        ("PERSISTENT_1", 40, 1200, False),
        ("PERSISTENT_2", 1000, 7200, True),
        ("PERSISTENT_2", 1000, 1201, False),
    ],
)
def test_capacities_of_lustre(
    deployment: Deployment, throughput: int | None, capacity: int, exists: bool
) -> None:
    assert (capacity_problem(deployment, throughput, capacity) is None) is exists


@pytest.mark.parametrize(
    ("deployment", "throughput", "exists"),
    [
        ("SCRATCH_1", None, True),
        ("SCRATCH_2", 200, False),
        ("PERSISTENT_1", 200, True),
        ("PERSISTENT_1", 40, True),
        ("PERSISTENT_1", None, False),
        ("PERSISTENT_2", 125, True),
        ("PERSISTENT_2", 50, False),
    ],
)
def test_throughputs_of_lustre(deployment: Deployment, throughput: int | None, exists: bool) -> None:
    assert (throughput_problem(deployment, throughput) is None) is exists


def test_only_the_slowest_persistent_1_is_on_disks() -> None:
    assert storage_type("PERSISTENT_1", 40) == "HDD"
    assert storage_type("PERSISTENT_1", 50) == storage_type("SCRATCH_2", None) == "SSD"


@pytest.mark.parametrize(
    ("iops", "exists"),
    [(None, True), (1500, True), (6000, True), (9000, False), (12000, True), (192000, True), (204000, False)],
)
def test_metadata_iops(iops: int | None, exists: bool) -> None:
    assert (metadata_problem("PERSISTENT_2", iops) is None) is exists


@pytest.mark.parametrize(("throughput", "step"), [(125, 38400), (250, 19200), (500, 9600), (1000, 4800)])
def test_capacities_of_file_systems_with_efa(throughput: int, step: int) -> None:
    for capacity, exists in ((step, True), (3 * step, True), (step // 2, False)):
        problem = efa_problem("PERSISTENT_2", throughput, capacity, metadata=True)
        assert (problem is None) is exists


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
